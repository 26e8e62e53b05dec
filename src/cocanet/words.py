"""Numbers, times and names in messages."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence


def plural(count: int | float, noun: str) -> str:
    """`1 step`, `2,000 steps`, `1.5 minutes`."""
    number = f"{count:,}" if isinstance(count, int) else f"{count:,g}"
    return f"{number} {noun}{'' if count == 1 else 's'}"


def readable(name: str) -> str:
    """A file name as text: bytes in it that are not UTF-8 become question marks."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def duration(seconds: float) -> str:
    """Hours, minutes and seconds."""
    if not math.isfinite(seconds):
        return "?"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def about(seconds: float) -> str:
    """A rounded time: `90 s`, `12 minutes`, `5.2 hours`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"


def unknown(what: str, given: str, known: Sequence[str], listed: str | None = None) -> str:
    """The message for a name that is not `known`: the nearest one, and all of them (or the text `listed`)."""
    spelled = given.lower().replace("_", "-")
    near = difflib.get_close_matches(spelled, known, n=1, cutoff=0.5)
    near = near or difflib.get_close_matches(spelled.replace(" ", "-"), known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"unknown {what} {given!r}: {hint}there are {listed or ', '.join(known)}"
