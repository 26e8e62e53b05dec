"""What the four rendered generators share: a random stream per sample, rejection of bad scenes, rendering."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float, UInt8

from cocanet.data.generators.render import Bank, Body, Camera, Lamp, Renderer, renderer_for
from cocanet.data.sample import Sample

MAX_ATTEMPTS = 2000


class Scene(NamedTuple):
    """A scene without its lamps; `objects` holds the factors of each object, in the order of the labels."""

    camera: Camera
    bodies: list[Body]
    objects: list[dict[str, Any]]


class RenderedScenes(ABC):
    """A source whose sample `i` has a random stream of its own, which depends on the seed and `i` alone.

    A scene that breaks the set's rules (an object is hidden, say) is rejected. The same stream then draws another one.
    """

    name: str
    version: int
    """Counted up whenever a seed gives other scenes than before, so that cached ones are made again."""
    background_labels: int = 1
    has_labels: bool = True
    objects: tuple[int, int]
    """Range of `max_objects`; its lower end is also the fewest objects of a scene."""
    least_shown: tuple[int, int]
    """Fewest visible pixels of an object, and the side of the image in which they are counted."""
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
        """Everything that defines this source, and the names behind the coded factors."""
        return {
            "name": self.name,
            "version": self.version,
            "seed": self.seed,
            "size": self.size,
            "max_objects": self.max_objects,
            "min_pixels": self.min_pixels,
            **{factor: list(names) for factor, names in self.codes.items()},
        }

    @staticmethod
    @abstractmethod
    def _bank() -> Bank:
        """The meshes and textures of all scenes."""

    @abstractmethod
    def _arrange(self, rng: np.random.Generator, count: int) -> Scene | None:
        """A scene of `count` objects, or None if they do not fit."""

    @abstractmethod
    def _sample_lamps(self, rng: np.random.Generator) -> list[list[Lamp]]:
        """The lamps of every exposure."""

    def _set_textures(self, renderer: Renderer, scene: Scene, lamps: list[list[Lamp]]) -> None:  # noqa: B027
        """Update textures that depend on the scene."""

    def _attempt(self, rng: np.random.Generator, count: int) -> Sample | None:
        """One scene, or None if it breaks the rules of the set."""
        scene = self._arrange(rng, count)
        if scene is None:
            return None
        renderer = renderer_for(self.name, self._bank, self.size)
        labels = renderer.labels(scene.bodies, scene.camera)
        visible = visible_pixels(labels, self.background_labels, count)
        if visible.min() < self.min_pixels:
            return None
        lamps = self._sample_lamps(rng)
        self._set_textures(renderer, scene, lamps)
        image = renderer.image(scene.bodies, lamps, scene.camera)
        return Sample(image, labels, {**columns(scene.objects), "visibility": visible})

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Sample:
        if not 0 <= index < self.count:
            raise IndexError(f"sample {index} of {self.count}")
        rng = np.random.default_rng([self.seed % 2**64, index])
        # Drawn once, so that rejection does not favour sparse scenes.
        objects = int(rng.integers(self.objects[0], self.max_objects + 1))
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
    """A minimum of visible pixels, scaled by area from the published image's side to ours."""
    return math.ceil(published * (size / published_side) ** 2)


def turn(angle: float) -> Float[np.ndarray, "3 3"]:
    """Rotation about the vertical axis by `angle` radians."""
    c, s = math.cos(angle), math.sin(angle)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
