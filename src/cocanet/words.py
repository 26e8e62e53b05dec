"""How numbers are put into words."""

from __future__ import annotations


def plural(count: int | float, noun: str) -> str:
    """`1 image`, `2,000 images`, `1.5 minutes`."""
    number = f"{count:,}" if isinstance(count, int) else f"{count:g}"
    return f"{number} {noun}" if count == 1 else f"{number} {noun}s"
