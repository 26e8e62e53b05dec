"""Numbers and times as people write them."""

from __future__ import annotations

import math


def plural(count: int | float, noun: str) -> str:
    """`1 step`, `2,000 steps`, `1.5 minutes`."""
    number = f"{count:,}" if isinstance(count, int) else f"{count:,g}"
    return f"{number} {noun}{'' if count == 1 else 's'}"


def duration(seconds: float) -> str:
    """Hours, minutes and seconds."""
    if not math.isfinite(seconds):
        return "?"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def about(seconds: float) -> str:
    """A time to plan with: `90 s`, `12 minutes`, `5.2 hours`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"
