"""Factors of many images as flat arrays: all objects in a row, and a count per image. No pickle."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

_MISSING = -1
Factors = Mapping[str, np.ndarray]


def pack_factors(images: Sequence[Factors]) -> bytes:
    """The .npz of the factors of a shard. An image may lack a factor that others have."""
    names = sorted({name for factors in images for name in factors})
    arrays: dict[str, np.ndarray] = {}
    for name in names:
        present = [np.asarray(factors[name]) for factors in images if name in factors]
        counts = [len(factors[name]) if name in factors else _MISSING for factors in images]
        if any(values.dtype.kind not in "biufUS" for values in present):
            raise ValueError(f"factor {name!r} must hold numbers or fixed-width strings, not {present[0].dtype}")
        try:
            arrays[f"values/{name}"] = np.concatenate(present)
        except (ValueError, TypeError) as error:
            raise ValueError(f"factor {name!r} changes its shape from image to image: {error}") from None
        arrays[f"counts/{name}"] = np.array(counts, dtype=np.int32)
    buffer = io.BytesIO()
    # A stored zip with the fixed date that `savez` gives its members: equal factors make equal bytes.
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


class ShardFactors:
    """The factors of one shard, read whole: they are small beside the images."""

    def __init__(self, path: Path, count: int) -> None:
        self._values: dict[str, np.ndarray] = {}
        self._ends: dict[str, np.ndarray] = {}
        self._counts: dict[str, np.ndarray] = {}
        try:
            with np.load(path, allow_pickle=False) as arrays:
                for key in arrays.files:
                    kind, _, name = key.partition("/")
                    (self._values if kind == "values" else self._counts)[name] = arrays[key]
        except (ValueError, OSError, zipfile.BadZipFile) as error:
            raise ValueError(f"{path} is damaged: {error}") from None
        for name, counts in self._counts.items():
            self._ends[name] = np.cumsum(np.maximum(counts, 0))
            if len(counts) != count or name not in self._values or self._ends[name][-1] != len(self._values[name]):
                raise ValueError(f"{path} is damaged: factor {name!r} does not fit {count} images")

    def __getitem__(self, image: int) -> dict[str, np.ndarray]:
        return {
            name: self._values[name][self._ends[name][image] - counts[image] : self._ends[name][image]].copy()
            for name, counts in self._counts.items()
            if counts[image] != _MISSING
        }
