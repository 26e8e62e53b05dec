"""Checks that configurations share, with their error messages."""

from __future__ import annotations


def positive(**values: int | float) -> None:
    for name, value in values.items():
        if value <= 0:
            raise ValueError(f"{name} must be positive; got {value}")


def not_negative(**values: int | float) -> None:
    for name, value in values.items():
        if value < 0:
            raise ValueError(f"{name} must be 0 or more; got {value}")


def by(size: tuple[int, int]) -> str:
    """Rows and columns as text: 32×32."""
    return f"{size[0]}×{size[1]}"
