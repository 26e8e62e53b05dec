"""`python -m tools.release`: build a release and test it in empty environments.

For each Python, the wheel alone is installed with the versions of constraints.txt. No package of an extra may come with
it, and its commands must run in an empty folder. This takes minutes and gigabytes of a temporary folder. To install the
CPU build of torch, set pip's own variables, such as PIP_EXTRA_INDEX_URL.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from email.message import Message
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import tyro
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
MINORS = range(8, 30)
"""Minor versions of the Pythons to look for on the path, as python3.N."""
TRIED = (
    "coca --version",
    "coca doctor",
    "coca demo tetrominoes",
    "coca scenes multi-dsprites --count 3 --seed 1 --out scenes",
    "coca segment multi-dsprites scenes --out found",
)
LEFT = ("demo/tetrominoes/grid.png", "found/objects.json", "found/sheet.png")
"""Files that the commands must write."""


@dataclass(frozen=True)
class Release:
    """Build sdist and wheel, and test the wheel in empty environments."""

    python: tuple[str, ...] = ()
    """Interpreters to test with; the oldest and the newest supported one on the path if left out."""
    out: Path = Path("dist")
    """Folder for sdist and wheel."""

    def run(self) -> None:
        wheel = build(self.out)
        metadata = read_metadata(wheel)
        for interpreter in self.python or oldest_and_newest(metadata):
            try_wheel(wheel, metadata, interpreter)
        print(f"{wheel} installs and works")


def build(out: Path) -> Path:
    """Build the sdist and from it the wheel; returns the wheel."""
    for old in out.glob("cocanet-*"):
        old.unlink()
    words = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out.absolute()), str(ROOT)]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = out.glob("cocanet-*.whl")
    return wheel


def read_metadata(wheel: Path) -> Message:
    with ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return Parser().parsestr(archive.read(name).decode())


def brought_by(metadata: Message, extra: str | None = None) -> set[str]:
    """Names of the packages that a wheel requires, or that an extra adds."""
    lines = [Requirement(line) for line in metadata.get_all("Requires-Dist", [])]
    plain: set[str] = {canonicalize_name(each.name) for each in lines if "extra" not in str(each.marker)}
    if extra is None:
        return plain
    chosen = [each for each in lines if each.marker is not None and each.marker.evaluate({"extra": extra})]
    return {str(canonicalize_name(each.name)) for each in chosen} - plain


def oldest_and_newest(metadata: Message) -> list[str]:
    """The oldest and the newest supported Python on the path; names that do not run are left out."""
    supported = SpecifierSet(metadata["Requires-Python"])
    there = [name for minor in MINORS if f"3.{minor}" in supported and _runs(name := f"python3.{minor}")]
    if not there:
        raise ValueError(f"no Python {supported} is on the path; name one with --python")
    return list(dict.fromkeys([there[0], there[-1]]))


def _runs(interpreter: str) -> bool:
    if shutil.which(interpreter) is None:
        return False
    return subprocess.run([interpreter, "-c", ""], capture_output=True).returncode == 0


def try_wheel(wheel: Path, metadata: Message, interpreter: str) -> None:
    """Install the wheel into a new environment and use it; CalledProcessError or ValueError if something fails."""
    with tempfile.TemporaryDirectory(prefix="cocanet-release-") as folder:
        environment, place = Path(folder) / "environment", Path(folder) / "place"
        place.mkdir()
        subprocess.run([interpreter, "-m", "venv", str(environment)], check=True)
        bin = environment / "bin"
        pip = [str(bin / "python"), "-m", "pip"]
        wanted = ["--constraint", str(ROOT / "constraints.txt"), str(wheel.absolute())]
        subprocess.run([*pip, "install", "--quiet", *wanted], check=True, env=_clean())
        subprocess.run([*pip, "check"], check=True, env=_clean())
        there = installed(pip)
        subprocess.run([bin / "python", "--version"], check=True)
        print(f"{len(there)} packages: {', '.join(f'{name} {number}' for name, number in there.items())}", flush=True)
        if uninvited := sorted(set(there) & set(_of_extras(metadata))):
            raise ValueError(f"the wheel alone brought {', '.join(uninvited)}, which only extras should bring")
        for line in TRIED:
            print(f"$ {line}", flush=True)
            subprocess.run([bin / "coca", *line.split()[1:]], check=True, cwd=place, env=_clean())
        for name in LEFT:
            if not (place / name).is_file():
                raise ValueError(f"the commands left no {name}")


def installed(pip: Sequence[str]) -> dict[str, str]:
    """The packages of an environment, with their versions."""
    listed = subprocess.run([*pip, "list", "--format", "json"], check=True, capture_output=True, env=_clean()).stdout
    return {canonicalize_name(each["name"]): each["version"] for each in json.loads(listed)}


def _of_extras(metadata: Message) -> Iterator[str]:
    for extra in metadata.get_all("Provides-Extra", []):
        yield from brought_by(metadata, extra)


def _clean() -> dict[str, str]:
    """The environment variables without those that change Python's paths."""
    elsewhere = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if name not in elsewhere}


if __name__ == "__main__":
    try:
        tyro.cli(Release, prog="python -m tools.release").run()
    except (ValueError, subprocess.CalledProcessError) as error:
        sys.exit(f"tools.release: {error}")
