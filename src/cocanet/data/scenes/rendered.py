"""What the four rendered scene generators share: a seed per sample, resampling, columns of factors."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, UInt8

from cocanet.data.sample import Sample

MAX_ATTEMPTS = 2000


class RenderedScenes(ABC):
    """A source whose sample `i` is drawn from a random stream of its own, so that nothing else can change it.

    An attempt that breaks the set's rules (an object is hidden, say) is dropped, and the same stream goes on.
    """

    name: str
    background_labels: int = 1
    has_labels: bool = True
    objects: tuple[int, int]
    """Fewest and most objects that a scene may be asked to have."""
    least_shown: tuple[int, int]
    """Pixels that every object shows at least, and the side of the picture in which the set counts them."""
    codes: ClassVar[Mapping[str, Sequence[str]]]
    """The names behind the coded factors."""

    def __init__(self, count: int, seed: int, size: int, max_objects: int) -> None:
        for label, value, least in (("count", count, 1), ("size", size, 16)):
            if value < least:
                raise ValueError(f"{label} is {value}, expected at least {least}")
        if size > 1024:
            raise ValueError(f"size is {size}, expected at most 1024")
        fewest, most = self.objects
        if not fewest <= max_objects <= most:
            raise ValueError(f"max_objects is {max_objects}, expected {fewest} to {most}")
        self.count, self.seed, self.size, self.max_objects = count, seed, size, max_objects
        self.min_pixels = scaled_pixels(*self.least_shown, size)

    @property
    def recipe(self) -> Mapping[str, Any]:
        """What makes this source again, and the names behind the coded factors."""
        return {
            "name": self.name,
            "version": 1,
            "seed": self.seed,
            "size": self.size,
            "max_objects": self.max_objects,
            "min_pixels": self.min_pixels,
            **{factor: list(names) for factor, names in self.codes.items()},
        }

    def _draw_count(self, rng: np.random.Generator) -> int:
        """How many objects the sample has; drawn once, so that resampling does not favour sparse scenes."""
        return int(rng.integers(self.objects[0], self.max_objects + 1))

    @abstractmethod
    def _attempt(self, rng: np.random.Generator, count: int) -> Sample | None:
        """One scene, or None if it breaks the rules of the set."""

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Sample:
        if not 0 <= index < self.count:
            raise IndexError(f"sample {index} of {self.count}")
        rng = np.random.default_rng([self.seed % 2**64, index])
        objects = self._draw_count(rng)
        for _ in range(MAX_ATTEMPTS):
            sample = self._attempt(rng, objects)
            if sample is not None:
                return sample
        raise RuntimeError(f"no valid {self.name} scene in {MAX_ATTEMPTS} attempts (seed {self.seed}, sample {index})")


def visible_pixels(labels: UInt8[np.ndarray, "h w"], background: int, objects: int) -> Float[np.ndarray, " objects"]:
    """How many pixels each object's label covers, in the order of the labels."""
    return np.bincount(labels.reshape(-1), minlength=background + objects)[background:].astype(np.float32)


def columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """One array per factor from one mapping per object: floats as float32, codes and counts as int32."""
    table = {}
    for key in rows[0]:
        column = np.asarray([row[key] for row in rows])
        table[key] = column.astype(np.float32 if column.dtype.kind == "f" else np.int32)
    return table


def scaled_pixels(published: int, published_side: int, size: int) -> int:
    """A minimum of visible pixels, carried over from the published crop's side to ours by area."""
    return math.ceil(published * (size / published_side) ** 2)


def turn(angle: float) -> Float[np.ndarray, "3 3"]:
    """Rotation about the vertical axis by `angle` radians."""
    c, s = math.cos(angle), math.sin(angle)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
