"""Label maps of published files: consecutive object numbers, and ObjectsRoom scenes that show one wall."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, Num, UInt8

BACKGROUND = 4
SKY, FLOOR, WALL, OTHER_WALL = 0, 1, 2, 3


class Compacted(NamedTuple):
    labels: UInt8[np.ndarray, "h w"]
    factors: dict[str, np.ndarray]


def compact(
    labels: UInt8[np.ndarray, "h w"],
    visibility: Num[np.ndarray, " entities"],
    factors: Mapping[str, np.ndarray],
) -> Compacted:
    """Number the objects 1, 2, … in stored order and keep their rows of the factors: row j has label j + 1.

    Files reserve rows for the largest number of objects. An object counts where the file calls it visible or it covers
    a pixel. Entity 0 is the background.
    """
    if int(labels.max()) >= len(visibility):
        raise ValueError(f"label {int(labels.max())} in a file of {len(visibility)} entities")
    there = (visibility > 0) | (np.bincount(labels.ravel(), minlength=len(visibility)) > 0)
    there[0] = False
    numbers = np.cumsum(there).astype(np.uint8) * there
    return Compacted(numbers[labels], {name: values[there] for name, values in factors.items()})


def repair_labels(labels: UInt8[np.ndarray, "h w"], entities: int) -> UInt8[np.ndarray, "h w"]:
    """An ObjectsRoom label map whose objects start at 4; `entities` is how many labels the file reserves.

    Published labels are 0 sky, 1 floor, 2 and 3 the two walls that meet in a corner, then the objects. Where the camera
    sees a single wall, 3 is the first object, and every label from 3 on has to move up by one.
    """
    if not shows_one_wall(labels, entities):
        return labels
    return labels + (labels >= OTHER_WALL).astype(np.uint8)


def shows_one_wall(labels: UInt8[np.ndarray, "h w"], entities: int) -> bool:
    """Whether label 3 is an object rather than the second wall.

    Seen from inside, both walls border the sky above and the floor below, and their floor lines meet in the corner. An
    object usually has the wall above it, not the sky, and its foot is lower in the image. So label 3 is an object if
    it reaches the bottom of the image, touches the sky nowhere, or its foot does not meet that of label 2. A scene
    that uses the last reserved label has all four background labels: there are too few objects otherwise.
    """
    if not (labels == OTHER_WALL).any() or int(labels.max()) >= entities - 1:
        return False
    if (labels[-1] == OTHER_WALL).any():
        return True
    return not (_meets_sky(labels) and _feet_meet(labels))


def _meets_sky(labels: UInt8[np.ndarray, "h w"]) -> bool:
    below_sky = np.vstack([np.full_like(labels[:1], SKY), labels[:-1]]) == SKY
    return bool((below_sky & (labels == OTHER_WALL)).any())


def _feet_meet(labels: UInt8[np.ndarray, "h w"]) -> bool:
    """Whether the floor lines of labels 2 and 3 join where the two are nearest; True where one has none."""
    wall, other = _foot(labels, WALL), _foot(labels, OTHER_WALL)
    if not wall.any() or not other.any():
        return True
    columns, others = np.flatnonzero(wall), np.flatnonzero(other)
    gaps = np.abs(columns[:, None] - others[None, :])
    one, two = np.unravel_index(gaps.argmin(), gaps.shape)
    return bool(abs(wall[columns[one]] - other[others[two]]) <= 2 + gaps[one, two] // 2)


def _foot(labels: UInt8[np.ndarray, "h w"], label: int) -> Int[np.ndarray, " w"]:
    """For each column the lowest row of this label that has the floor right below it, or 0."""
    rows = np.arange(1, len(labels))[:, None]
    feet = np.where((labels[:-1] == label) & (labels[1:] == FLOOR), rows, 0)
    return np.asarray(feet.max(axis=0))
