"""Small sources for the tests of what happens to samples after they are made."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from cocanet.data.sample import Sample


class NoiseSource:
    """Noise, labels and factors of every kind, their number changing from image to image."""

    background_labels = 2
    has_labels = True

    def __init__(self, count: int, seed: int = 0, size: tuple[int, int] = (5, 7)) -> None:
        self.count, self.seed, self.size = count, seed, size

    @property
    def recipe(self) -> dict[str, Any]:
        return {"noise": True, "seed": self.seed, "size": self.size}

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Sample:
        rng = np.random.default_rng([self.seed, index])
        objects = int(rng.integers(0, 4))
        factors: dict[str, np.ndarray] = {
            "position": rng.normal(size=(objects, 2)).astype(np.float32),
            "shape": np.array(["box", "ball", "a long name"])[rng.integers(0, 3, objects)],
            "visible": rng.random(objects) > 0.5,
        }
        if index % 3 == 0:
            factors["only here"] = rng.integers(0, 9, objects)
        image = rng.integers(0, 256, (*self.size, 3), dtype=np.uint8)
        labels = rng.integers(0, self.background_labels + objects, self.size, dtype=np.uint8)
        return Sample(image, labels, factors)


class Failing(NoiseSource):
    """Raises `error` at one sample, or ends the process."""

    def __init__(self, count: int, at: int, error: type[BaseException] | None = KeyboardInterrupt) -> None:
        super().__init__(count)
        self.at, self.error = at, error

    def __getitem__(self, index: int) -> Sample:
        if index == self.at:
            if self.error is None:
                os._exit(3)
            raise self.error(f"sample {index} is bad")
        return super().__getitem__(index)


class OwnImages(NoiseSource):
    """A store like that of a folder of the user's images."""

    recipe = {"name": "folder"}  # noqa: RUF012


def assert_same(first: Sample, second: Sample) -> None:
    np.testing.assert_array_equal(first.image, second.image)
    np.testing.assert_array_equal(first.labels, second.labels)
    assert set(first.factors) == set(second.factors)
    for name, values in first.factors.items():
        np.testing.assert_array_equal(values, second.factors[name])
