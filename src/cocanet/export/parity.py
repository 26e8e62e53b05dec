"""Whether an exported file finds what the model finds, measured: largest differences over pictures."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.optimize import linear_sum_assignment

from cocanet.models.coca_net import CocaNet

TOLERANCE = 1e-4
"""Most that a soft mask of a scene may differ by; of two masks nearer than twice that either may be the largest."""
ROUGH = 1e-3
"""The same for `pictures`, which no model was trained on: feedback divides squared distances of colours by their
variance, of as little as 0.001, and so does it with what was rounded off."""
NUDGE, NUDGES = 3e-6, 8
"""An image whose masks change with the last digits of weights and colours, in any of so many draws, is one that
rounding decides."""
BATCH = 8

Masks = Float[np.ndarray, "b k h w"]
Runner = Callable[[Float[np.ndarray, "b 3 h w"]], Mapping[str, np.ndarray]]
"""An exported model: outputs by name."""


@dataclass(frozen=True)
class Parity:
    """Torch and an exported file on the same images."""

    images: int
    reordered: int
    """Images with the same masks, but slots in another order: of two anchors that are as good either may come first."""
    undecided: int
    """Images with other masks, where torch differs from itself too if weights and colours change by some millionths.
    They are in no other field."""
    masks: float
    """Largest difference of a soft mask."""
    slots: float
    """Largest difference of a slot's vector, of values that are about 1."""
    labels: int
    """Pixels whose largest mask is another one, ties aside."""
    tolerance: float = TOLERANCE

    @property
    def holds(self) -> bool:
        return self.masks <= self.tolerance and not self.labels and self.undecided < max(1, self.images / 4)

    def __str__(self) -> str:
        same = "every pixel has the same slot" if not self.labels else f"{self.labels:,} pixels have another slot"
        order = f"; on {self.reordered} of them slots come in another order" if self.reordered else ""
        rounding = f"; {self.undecided} are left out, for rounding decides them" if self.undecided else ""
        return (
            f"on {self.images} images masks differ by at most {self.masks:.1e}, slots by {self.slots:.1e}, "
            f"{same}{order}{rounding}"
        )


def compare(model: CocaNet, run: Runner, images: Float[np.ndarray, "n 3 h w"], tolerance: float = TOLERANCE) -> Parity:
    """Run both, in batches of several sizes."""
    masks, slots, labels, reordered, undecided = 0.0, 0.0, 0, 0, 0
    for batch in _batches(images):
        expected, found = _encode(model, batch), run(batch)
        masks_there, slots_there = found["masks"].copy(), found["slots"].copy()
        for image in np.flatnonzero(_largest(expected["masks"], masks_there) > tolerance):
            order = _order(expected["masks"][image], masks_there[image])
            if np.abs(expected["masks"][image] - masks_there[image][order]).max() <= tolerance:
                masks_there[image], slots_there[image] = masks_there[image][order], slots_there[image][order]
                reordered += 1
        settled = _largest(expected["masks"], masks_there) <= tolerance
        if not settled.all():
            apart = ~settled
            settled[apart] = ~_undecided(model, batch[apart], expected["masks"][apart], tolerance)
        undecided += int((~settled).sum())
        masks = max(masks, float(_largest(expected["masks"], masks_there)[settled].max(initial=0)))
        slots = max(slots, float(_largest(expected["slots"], slots_there)[settled].max(initial=0)))
        labels += _moved(expected["masks"][settled], masks_there[settled], tolerance)
    return Parity(len(images), reordered, undecided, masks, slots, labels, tolerance)


def pictures(size: tuple[int, int], count: int, seed: int = 0) -> Float[np.ndarray, "n 3 h w"]:
    """Discs and boxes of plain colours on a ground that grows lighter to one side, with a little noise."""
    draw = np.random.default_rng(seed)
    rows, columns = np.meshgrid(*(np.linspace(0, 1, side) for side in size), indexing="ij")
    made = np.empty((count, 3, *size), dtype=np.float32)
    for image in made:
        image[:] = draw.uniform(0.1, 0.5, (3, 1, 1)) + draw.uniform(0, 0.3) * rows
        for _ in range(draw.integers(2, 6)):
            (row, column), side = draw.uniform(0.15, 0.85, 2), draw.uniform(0.08, 0.2)
            down, along = np.abs(rows - row), np.abs(columns - column)
            inside = down**2 + along**2 < side**2 if draw.random() < 0.5 else np.maximum(down, along) < side
            image[:, inside] = draw.uniform(0, 1, (3, 1))
        image += draw.normal(0, 0.01, image.shape)
    return np.asarray(made.clip(0, 1))


def _batches(images: Float[np.ndarray, "n 3 h w"]) -> Iterator[Float[np.ndarray, "b 3 h w"]]:
    """One image, then the rest in batches, the last of which may be smaller."""
    yield images[:1]
    for start in range(1, len(images), BATCH):
        yield images[start : start + BATCH]


@torch.inference_mode()
def _encode(model: CocaNet, images: Float[np.ndarray, "b 3 h w"]) -> dict[str, np.ndarray]:
    found = model.encode(torch.from_numpy(images))
    return {"masks": found.masks.numpy(), "slots": found.slots.numpy()}


def _undecided(
    model: CocaNet, images: Float[np.ndarray, "b 3 h w"], masks: Masks, tolerance: float
) -> Bool[np.ndarray, " b"]:
    moved, draw = np.zeros(len(images), dtype=bool), torch.Generator().manual_seed(0)
    for _ in range(NUDGES):
        nudged = copy.deepcopy(model)
        with torch.no_grad():
            for weight in nudged.parameters():
                weight.mul_(1 + NUDGE * torch.randn(weight.shape, generator=draw))
        colours = images * (1 + NUDGE * torch.randn(images.shape, generator=draw).numpy())
        moved |= _largest(_encode(nudged, colours.clip(0, 1))["masks"], masks) > tolerance
    return moved


def _order(expected: Float[np.ndarray, "k h w"], found: Float[np.ndarray, "k h w"]) -> Int[np.ndarray, " k"]:
    """The slots of one in the order of the other's, by what they share."""
    shared = expected.reshape(len(expected), -1) @ found.reshape(len(found), -1).T
    return np.asarray(linear_sum_assignment(shared, maximize=True)[1])


def _largest(one: np.ndarray, other: np.ndarray) -> Float[np.ndarray, " b"]:
    return np.asarray(np.abs(one - other).reshape(len(one), -1).max(1))


def _moved(expected: Masks, found: Masks, tolerance: float) -> int:
    """Pixels whose largest mask is another, although it led by more than the tolerance."""
    there, here = expected.argmax(1)[:, None], found.argmax(1)[:, None]
    lead = np.take_along_axis(expected, there, 1) - np.take_along_axis(expected, here, 1)
    return int((lead > 2 * tolerance).sum())
