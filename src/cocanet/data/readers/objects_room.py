"""Labels of ObjectsRoom scenes that show one wall only.

The published labels are 0 sky, 1 floor, 2 and 3 the two walls that meet in a corner, then the objects. Where
the camera sees a single wall the numbers close up: 3 is then the first object, and everything from 3 on has
to move up by one.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Int, UInt8

BACKGROUND = 4
SKY, FLOOR, WALL, OTHER_WALL = 0, 1, 2, 3


def repair_labels(labels: UInt8[np.ndarray, "h w"], entities: int) -> UInt8[np.ndarray, "h w"]:
    """The label map with its objects starting at 4; `entities` is how many labels the file has room for."""
    if not shows_one_wall(labels, entities):
        return labels
    return labels + (labels >= OTHER_WALL).astype(np.uint8)


def shows_one_wall(labels: UInt8[np.ndarray, "h w"], entities: int) -> bool:
    """Whether label 3 is an object rather than the second wall.

    Seen from inside the room, both walls end above at the sky and below at the floor, and in their corner the
    two floor lines meet. An object stands before the wall: as a rule it has the wall above it, not the sky,
    and its foot lies lower in the image. So label 3 is an object if it reaches the bottom of the image, if it
    nowhere touches the sky, or if its foot and the foot of label 2 do not meet. A scene that uses the last
    label there is room for has all four background labels: the objects alone are too few.
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
