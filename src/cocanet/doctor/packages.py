"""Whether the packages that cocanet declares are there, in versions it can use: its own, and those of its extras."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import PackageNotFoundError, requires, version

from packaging.requirements import Requirement

from cocanet.doctor.finding import Finding
from cocanet.words import plural

Lookup = Callable[[str], str | None]
"""The version of a package that is installed; None if it is not."""

USES = {
    "render": "rendered scenes",
    "explore": "the explorer in a browser",
    "onnx": "models without torch",
    "parquet": "Parquet files",
    "ray": "segmenting on a cluster",
    "hub": "the Hugging Face hub",
    "datasets": "stores as Hugging Face data sets",
    "tensorboard": "curves in TensorBoard",
}
"""The extras that are for users, and what for; a release may have fewer."""


def installed_version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def declared(package: str = "cocanet") -> list[str]:
    """The requirements of an installed package, those of its extras with a marker."""
    return requires(package) or []


def needed(declared: Iterable[str], extra: str = "") -> list[Requirement]:
    """What must be there on this machine: for the package itself, or what an extra adds to that."""
    everything = [Requirement(line) for line in declared]
    own = [each for each in everything if each.marker is None or each.marker.evaluate({"extra": ""})]
    if not extra:
        return own
    return [each for each in everything if each not in own and each.marker and each.marker.evaluate({"extra": extra})]


def unmet(requirements: Iterable[Requirement], lookup: Lookup = installed_version) -> Iterator[str]:
    """Those that are not installed, or not in a version that will do."""
    for each in requirements:
        there = lookup(each.name)
        if there is None:
            yield each.name
        elif not each.specifier.contains(there, prereleases=True):
            yield f"{each.name}{each.specifier} (not {there})"


def examine_packages() -> Finding:
    """What cocanet cannot do without, torch among it."""
    wanted = needed(declared())
    lacking = list(unmet(wanted))
    if lacking:
        return Finding("packages", "broken", f"lacks {', '.join(lacking)}", "pip install --upgrade cocanet")
    return Finding("packages", "works", f"all {plural(len(wanted), 'package')} that cocanet needs")


def examine_extra(extra: str) -> Finding:
    what = f"[{extra}]"
    wanted = needed(declared(), extra)
    lacking = list(unmet(wanted))
    if not lacking:
        names = ", ".join(f"{each.name} {installed_version(each.name)}" for each in wanted)
        return Finding(what, "works", f"{USES[extra]}: {names}")
    return Finding(what, "missing", f"{USES[extra]}: needs {', '.join(lacking)}", f"pip install 'cocanet[{extra}]'")


def extras() -> list[str]:
    """Those of `USES` that this release declares."""
    lines = declared()
    return [extra for extra in USES if needed(lines, extra)]
