"""Whether an exported file predicts what the model predicts: largest differences over images."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.optimize import linear_sum_assignment

from cocanet.export.graph import FromImages

TOLERANCE = 1e-4
"""Largest accepted difference of a soft mask. Of two masks closer than twice that, either may be the largest."""
SYNTHETIC_TOLERANCE = 1e-3
"""The same for `synthetic_images`, which lie outside of any training set: refinement divides squared distances of
colours by variances as small as 0.003, which magnifies rounding errors."""
NOISE, DRAWS = 3e-6, 8
"""An image is undecided if its masks change under relative noise of this size on weights and colours, in any draw."""
BATCH = 8

Runner = Callable[[Float[np.ndarray, "b 3 h w"]], Mapping[str, np.ndarray]]
"""An exported model: outputs by name."""


@dataclass(frozen=True)
class Parity:
    """Torch and an exported file on the same images."""

    images: int
    reordered: int
    """Images with equal masks in another order of slots: equally good anchors may come in either order."""
    undecided: int
    """Images with other masks, on which torch itself changes its masks under tiny noise; left out of all other
    fields."""
    masks: float
    """Largest difference of a soft mask."""
    slots: float
    """Largest difference of a slot vector, whose values are about 1."""
    labels: int
    """Pixels with a different largest mask, ties aside."""
    tolerance: float = TOLERANCE

    @property
    def holds(self) -> bool:
        return self.masks <= self.tolerance and not self.labels and self.undecided < max(1, self.images / 4)

    def __str__(self) -> str:
        same = "every pixel has the same slot" if not self.labels else f"{self.labels:,} pixels have another slot"
        order = f"; on {self.reordered} images slots come in another order" if self.reordered else ""
        rounding = f"; {self.undecided} images are left out, since rounding decides their masks" * bool(self.undecided)
        return (
            f"on {self.images} images masks differ by at most {self.masks:.1e}, slots by {self.slots:.1e}, "
            f"{same}{order}{rounding}"
        )


def compare(
    reference: FromImages, run: Runner, images: Float[np.ndarray, "n 3 h w"], tolerance: float = TOLERANCE
) -> Parity:
    """Compare the outputs `masks` and `slots` of a reference and an export, in batches of several sizes."""
    masks, slots, labels, reordered, undecided = 0.0, 0.0, 0, 0, 0
    for batch in _batches(images):
        (expected, expected_slots), outputs = _run(reference, batch), run(batch)
        found, found_slots = outputs["masks"].copy(), outputs["slots"].copy()
        for image in np.flatnonzero(_largest(expected, found) > tolerance):
            order = _order(expected[image], found[image])
            if np.abs(expected[image] - found[image][order]).max() <= tolerance:
                found[image], found_slots[image] = found[image][order], found_slots[image][order]
                reordered += 1
        decided = _largest(expected, found) <= tolerance
        if not decided.all():
            different = ~decided
            decided[different] = ~_undecided(reference, batch[different], expected[different], tolerance)
        undecided += int((~decided).sum())
        masks = max(masks, float(_largest(expected, found)[decided].max(initial=0)))
        slots = max(slots, float(_largest(expected_slots, found_slots)[decided].max(initial=0)))
        labels += _changed_pixels(expected[decided], found[decided], tolerance)
    return Parity(len(images), reordered, undecided, masks, slots, labels, tolerance)


def synthetic_images(size: tuple[int, int], count: int, seed: int = 0) -> Float[np.ndarray, "n 3 h w"]:
    """Discs and boxes of plain colours on a ground with a vertical gradient, with a little noise."""
    draw = np.random.default_rng(seed)
    rows, columns = np.meshgrid(*(np.linspace(0, 1, side) for side in size), indexing="ij")
    images = np.empty((count, 3, *size), dtype=np.float32)
    for image in images:
        image[:] = draw.uniform(0.1, 0.5, (3, 1, 1)) + draw.uniform(0, 0.3) * rows
        for _ in range(draw.integers(2, 6)):
            (row, column), side = draw.uniform(0.15, 0.85, 2), draw.uniform(0.08, 0.2)
            down, along = np.abs(rows - row), np.abs(columns - column)
            inside = down**2 + along**2 < side**2 if draw.random() < 0.5 else np.maximum(down, along) < side
            image[:, inside] = draw.uniform(0, 1, (3, 1))
        image += draw.normal(0, 0.01, image.shape)
    return np.asarray(images.clip(0, 1))


def _batches(images: Float[np.ndarray, "n 3 h w"]) -> Iterator[Float[np.ndarray, "b 3 h w"]]:
    """One image, then all others in batches, the last of which may be smaller."""
    yield images[:1]
    for start in range(1, len(images), BATCH):
        yield images[start : start + BATCH]


@torch.inference_mode()
def _run(
    reference: FromImages, images: Float[np.ndarray, "b 3 h w"]
) -> tuple[Float[np.ndarray, "b k h w"], Float[np.ndarray, "b k d"]]:
    masks, slots = reference(torch.from_numpy(images))
    return masks.numpy(), slots.numpy()


def _undecided(
    reference: FromImages,
    images: Float[np.ndarray, "b 3 h w"],
    masks: Float[np.ndarray, "b k h w"],
    tolerance: float,
) -> Bool[np.ndarray, " b"]:
    """Whether the reference's own masks change under tiny noise."""
    changed, draw = np.zeros(len(images), dtype=bool), torch.Generator().manual_seed(0)
    for _ in range(DRAWS):
        noisy = copy.deepcopy(reference)
        with torch.no_grad():
            for weight in noisy.parameters():
                weight.mul_(1 + NOISE * torch.randn(weight.shape, generator=draw))
        colours = images * (1 + NOISE * torch.randn(images.shape, generator=draw).numpy())
        changed |= _largest(_run(noisy, colours.clip(0, 1))[0], masks) > tolerance
    return changed


def _order(expected: Float[np.ndarray, "k h w"], found: Float[np.ndarray, "k h w"]) -> Int[np.ndarray, " k"]:
    """The order of slots that matches the expected masks best."""
    shared = expected.reshape(len(expected), -1) @ found.reshape(len(found), -1).T
    return np.asarray(linear_sum_assignment(shared, maximize=True)[1])


def _largest(one: np.ndarray, other: np.ndarray) -> Float[np.ndarray, " b"]:
    """Largest difference of each image."""
    return np.asarray(np.abs(one - other).reshape(len(one), -1).max(1))


def _changed_pixels(
    expected: Float[np.ndarray, "b k h w"], found: Float[np.ndarray, "b k h w"], tolerance: float
) -> int:
    """Pixels with a different largest mask, although the expected one leads by more than the tolerance."""
    there, here = expected.argmax(1)[:, None], found.argmax(1)[:, None]
    lead = np.take_along_axis(expected, there, 1) - np.take_along_axis(expected, here, 1)
    return int((lead > 2 * tolerance).sum())
