"""Bounds of a model that a file describes: nothing is computed from sizes that no model has."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

MAX_SIZE = 2**16
"""Of any number: features, slots, pixels of a side."""
MAX_REPEATS = 256
"""Of layers one after the other."""
MAX_CELLS = 2**22
"""Of an image, and 2**16 of a window."""
MAX_ENTRIES = 64
"""Of a list or a dictionary."""
REPEATED = ("depth", "blocks", "iterations", "octaves", "heads")
WINDOWS = ("window",)
FEW = ("clusters", "slots", "max_slots")


def check_bounds(plain: Any, place: str, name: str = "") -> None:
    """ValueError names the first value of a model's plain configuration that is beyond the bounds."""
    if isinstance(plain, Mapping | list) and len(plain) > MAX_ENTRIES:
        raise ValueError(f"{place} has {len(plain)} entries; expected at most {MAX_ENTRIES}")
    if isinstance(plain, Mapping):
        for key, value in plain.items():
            check_bounds(value, f"{place}.{key}", key)
    elif isinstance(plain, list):
        for value in plain:
            check_bounds(value, place, name)
        _check_area(plain, place, MAX_SIZE if name in WINDOWS else MAX_CELLS)
    elif isinstance(plain, int | float):
        most = MAX_REPEATS if name in REPEATED else 4096 if name in FEW else MAX_SIZE
        if not math.isfinite(plain) or (isinstance(plain, int) and abs(plain) > most):
            raise ValueError(f"{place} is {plain}; expected at most {most}")


def _check_area(plain: list[Any], place: str, most: int) -> None:
    sides = [side for side in plain if isinstance(side, int)]
    if len(plain) == len(sides) == 2 and sides[0] * sides[1] > most:
        raise ValueError(f"{place} is {sides[0]}×{sides[1]}; expected at most {most:,} cells")
