"""Which samples of a published set are for training, validation and test.

A split is written `PART` or `VARIANT/PART`, with PART one of train, val and test: `train`, `clevr6/test`,
`ccs_all/val`. A variant alone (`clevr6`) is all of it, and no split at all is every sample there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

PARTS = ("train", "val", "test")


class Split(NamedTuple):
    variant: str | None
    part: str | None


class Sizes(NamedTuple):
    """Published sizes of contiguous parts, in the order of the file."""

    train: int
    val: int
    test: int


def parse_split(split: str | None, variants: Sequence[str] = ()) -> Split:
    """The variant and the part named by `split`; a name that is neither is the user's mistake."""
    if split is None:
        return Split(None, None)
    variant, _, part = split.rpartition("/")
    if not variant and part in variants:
        return Split(part, None)
    if part not in PARTS or (variant and variant not in variants):
        choices = [*PARTS, *(f"{name}/{part}" for name in variants for part in PARTS)]
        raise ValueError(f"split {split!r}: expected one of {', '.join(choices)}")
    return Split(variant or None, part)


def no_split(split: str | None, format: str) -> None:
    if split is not None:
        raise ValueError(f"split {split!r}: the format {format} has no published splits")


def contiguous(sizes: Sizes, part: str) -> range:
    """Train first, then val, then test, without shuffling (the object-centric library's protocol)."""
    start = {"train": 0, "val": sizes.train, "test": sizes.train + sizes.val}[part]
    return range(start, start + getattr(sizes, part))


def require(total: int, sizes: Sizes, part: str) -> range:
    """The contiguous part, refused where the file is too short to be the published one."""
    chosen = contiguous(sizes, part)
    if chosen.stop > total:
        published = f"{sizes.train}/{sizes.val}/{sizes.test}"
        raise ValueError(
            f"the {part} part of the published {published} ends at {chosen.stop}, but there are {total} "
            "samples; leave the split out to read them all"
        )
    return chosen
