"""COCO's compressed run lengths.

A mask is read down its columns as lengths of runs, alternately outside and inside, starting outside. From the fourth
on, a length is stored as the difference to the length two before. Numbers become text in groups of five bits, lowest
first: each group is a character from "0" on, whose sixth bit is set if more groups follow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

_GROUP, _SIGN, _MORE, _ZERO = 5, 0x10, 0x20, ord("0")


def decode_mask(mask: Mapping[str, Any]) -> Bool[np.ndarray, "h w"]:
    """The mask of COCO's run lengths, compressed or as a list; ValueError if the runs do not fill it."""
    height, width = mask["size"]
    counts = expand(mask["counts"]) if isinstance(mask["counts"], str) else np.asarray(mask["counts"], np.int64)
    if (counts < 0).any() or counts.sum() != height * width:
        raise ValueError(f"the runs of a mask have {int(counts.sum())} pixels; expected {height}×{width}")
    return np.repeat(np.arange(len(counts)) % 2 == 1, counts).reshape(width, height).T


def compress(counts: Int[np.ndarray, " n"]) -> str:
    """Run lengths as COCO's text; each step of the loop encodes one group of five bits of all lengths."""
    left = counts.astype(np.int64)
    left[3:] -= counts[1:-2]
    groups, there = [], []
    more = np.ones(len(left), dtype=bool)
    while more.any():
        there.append(more)
        group = left & (_SIGN | (_SIGN - 1))
        left = left >> _GROUP
        more = more & np.where(group & _SIGN, left != -1, left != 0)
        groups.append(group + np.where(more, _MORE, 0) + _ZERO)
    text = np.stack(groups, 1)[np.stack(there, 1)]
    return bytes(text.astype(np.uint8)).decode("ascii")


def expand(text: str) -> Int[np.ndarray, " n"]:
    """Run lengths from COCO's text, the inverse of `compress`."""
    codes = np.frombuffer(text.encode("ascii"), np.uint8).astype(np.int64) - _ZERO
    if len(codes) == 0 or (codes < 0).any() or (codes >= 2 * _MORE).any() or codes[-1] & _MORE:
        raise ValueError(f"{text[:20]!r} is not COCO's text of run lengths")
    last = (codes & _MORE) == 0
    number = np.cumsum(last) - last
    first = np.flatnonzero(np.append(True, last[:-1]))
    place = np.arange(len(codes)) - first[number]
    if place.max() > 11:
        raise ValueError(f"{text[:20]!r} is not COCO's text of run lengths")
    groups = codes & (_MORE - 1)
    values = np.zeros(int(last.sum()), np.int64)
    np.add.at(values, number, groups << (_GROUP * place))
    negative = (groups[last] & _SIGN) != 0
    values -= negative.astype(np.int64) << (_GROUP * (place[last] + 1))
    for start in (1, 2):
        values[start::2] = np.cumsum(values[start::2])
    return values
