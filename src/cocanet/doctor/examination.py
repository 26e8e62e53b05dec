"""Everything that is looked at, in the order in which it matters."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from cocanet.doctor.finding import Finding, guarded
from cocanet.doctor.machine import examine_browser, examine_devices, examine_folder, examine_threads, examine_torch
from cocanet.doctor.packages import examine_extra, examine_packages, extras
from cocanet.doctor.renderer import examine_renderer
from cocanet.doctor.weights import examine_weights


def examine() -> Iterator[Finding]:
    """One finding after the other; some take seconds."""
    yield guarded("packages", examine_packages, essential=True)
    torch = guarded("torch", examine_torch, essential=True)
    yield torch
    if torch.state == "works":
        yield guarded("threads", examine_threads)
        yield guarded("devices", examine_devices)
        yield guarded("weights", examine_weights, essential=True)
    yield guarded("this folder", _this_folder)
    yield guarded("cache", _cache)
    yield guarded("renderer", examine_renderer)
    yield guarded("browser", examine_browser)
    try:
        names = extras()
    except Exception:
        return  # whatever keeps them from being read, `packages` has said it
    for extra in names:
        yield guarded(f"[{extra}]", partial(examine_extra, extra))


def _this_folder() -> Finding:
    return examine_folder("this folder", Path.cwd(), "go elsewhere, or give --out a folder that you may write to")


def _cache() -> Finding:
    from cocanet.data.splits import cache_folder

    return examine_folder("cache", cache_folder(), "set COCANET_CACHE to a folder that has room and may be written to")
