"""Published files reserve rows for the most objects a scene can have; samples keep those that are there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Num, UInt8


class Objects(NamedTuple):
    labels: UInt8[np.ndarray, "h w"]
    factors: dict[str, np.ndarray]


def compact(
    labels: UInt8[np.ndarray, "h w"],
    visibility: Num[np.ndarray, " entities"],
    factors: Mapping[str, np.ndarray],
) -> Objects:
    """Number the objects 1, 2, … in stored order and keep their rows of the factors: row j has label j + 1.

    An object counts where the file calls it visible or a pixel shows it. Entity 0 is the background.
    """
    if int(labels.max()) >= len(visibility):
        raise ValueError(f"label {int(labels.max())} in a file of {len(visibility)} entities")
    there = (visibility > 0) | (np.bincount(labels.ravel(), minlength=len(visibility)) > 0)
    there[0] = False
    numbers = np.cumsum(there).astype(np.uint8) * there
    return Objects(numbers[labels], {name: values[there] for name, values in factors.items()})
