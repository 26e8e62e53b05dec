"""The known failure modes of slot models, detected from the masks of a batch, without labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from cocanet.metrics.functional.ari import adjusted_rand_index
from cocanet.metrics.functional.contingency import contingency, hard_labels
from cocanet.models.output import Output

FailureMode = Literal[
    "uniform masks",
    "one slot takes all",
    "stripes",
    "fixed layout",
    "empty slots",
    "encoder and decoder disagree",
]
Side = Literal["encoder", "decoder", "both"]

ENOUGH_IMAGES = 12
"""Fewer images may agree by chance: one image with one small object is no failure mode."""
UNDECIDED = 0.1
"""Decision (0 for equal masks, 1 for hard ones) below which masks are uniform: 0.03-0.07 before training, above 0.4
once anything is learned."""
TAKES_ALL = 0.98
"""Share of the pixels; the background of ShapeStacks truly covers 96 %, and up to 99 % of some scenes."""
MOST_IMAGES = 0.5
STRIPED = 0.2
"""Boundaries along the rarer axis for each along the other, 0 for perfect stripes; true scenes have 0.5-0.9."""
SAME_MASKS = 0.8
"""ARI of masks of different images; true segments reach 0.64 where backgrounds and towers are always alike."""
NEARLY_NO_IMAGES = 0.03
"""Share of images; where scenes vary in number of objects, the last of them is in about every sixth."""
DISAGREEMENT = 0.2
"""ARI of both sides; about 0 before training, and 0.4 or more in models that found the objects."""
NEIGHBOURS = 3
"""Each image's masks are compared with those of this many others: the mean over all pairs is hardly different."""


class Advice(NamedTuple):
    """What the measured number is, and what usually helps."""

    number: str
    remedy: str


ADVICE: Mapping[FailureMode, Advice] = {
    "uniform masks": Advice(
        "from 0% for equal masks to 100% for hard ones",
        "no slot owns anything yet; usual early on, later try a higher learning rate with warm-up",
    ),
    "one slot takes all": Advice(
        f"images where one owns over {TAKES_ALL:.0%} of the pixels",
        "nothing is separated; try a higher temperature in the last level, or a longer warm-up",
    ),
    "stripes": Advice(
        "boundaries that run one way",
        "the masks follow position, not the image; try Fourier positions in the decoder, or another seed",
    ),
    "fixed layout": Advice(
        "ARI between the masks of different images",
        "the masks follow position, not the image; try Fourier positions in the decoder, or another seed",
    ),
    "empty slots": Advice(
        "slots without a pixel in nearly all images",
        "try fewer slots, or a higher temperature in the last level if objects share a slot",
    ),
    "encoder and decoder disagree": Advice(
        "ARI between their masks",
        "one side has not learned yet; usual early on, later try a higher learning rate",
    ),
}


class Diagnosis(NamedTuple):
    """A failure mode, the side that shows it, and one line with the measured number and what usually helps."""

    name: FailureMode
    side: Side
    message: str


@torch.inference_mode()
def diagnose(output: Output, *, decoder: bool = True) -> list[Diagnosis]:
    """Failure modes of a model, by its output in eval mode for 16 images or more; an empty list if there are none.

    Of failure modes that follow from each other only the cause is named. With fewer than `ENOUGH_IMAGES` images, only
    those are reported that a single image can show. `decoder` is False for token decoders: their masks are attention.
    """
    slots = output.in_use.shape[1]
    sides: dict[Side, Tensor] = {"encoder": output.encoder_masks}
    if decoder:
        sides["decoder"] = output.decoder_masks
    labels = {side: hard_labels(masks) for side, masks in sides.items()}
    symptoms = {side: dict(_symptoms(masks, labels[side], output.in_use)) for side, masks in sides.items()}
    findings = []
    for mode in get_args(FailureMode):
        measured = {side: found[mode] for side, found in symptoms.items() if mode in found}
        if measured:
            findings.append(_finding(mode, measured))
    # A side with a failure mode of its own disagrees with any other.
    if decoder and all(mode == "empty slots" for found in symptoms.values() for mode in found):
        agreement = float(adjusted_rand_index(contingency(labels["encoder"], labels["decoder"], slots, slots)).mean())
        if agreement < DISAGREEMENT:
            findings.append(_finding("encoder and decoder disagree", {"both": f"{agreement:.2f}"}))
    return findings


def _finding(mode: FailureMode, measured: Mapping[Side, str]) -> Diagnosis:
    side: Side = next(iter(measured)) if len(measured) == 1 else "both"
    values = ", ".join(value if where == "both" else f"{where} {value}" for where, value in measured.items())
    number, remedy = ADVICE[mode]
    return Diagnosis(mode, side, f"{mode} ({number}: {values}): {remedy}")


def _symptoms(
    masks: Float[Tensor, "b k h w"], labels: Int[Tensor, "b h w"], in_use: Bool[Tensor, "b k"]
) -> Iterator[tuple[FailureMode, str]]:
    """Each failure mode of one side and the number that shows it."""
    images, slots = in_use.shape
    decided = float(decision(masks, in_use))
    if decided < UNDECIDED:
        yield "uniform masks", f"{decided:.0%}"
        return
    if images < ENOUGH_IMAGES:
        return
    owned = contingency(torch.zeros_like(labels), labels, 1, slots).squeeze(1)
    largest = owned.amax(1) / labels[0].numel()
    full = float((largest > TAKES_ALL).double().mean())
    if full > MOST_IMAGES:
        yield "one slot takes all", f"{full:.0%}"
        return
    uneven, alike = float(stripedness(labels)), float(likeness(labels, slots))
    if uneven < STRIPED:
        yield "stripes", f"{1 / (1 + uneven):.0%}"
    elif alike > SAME_MASKS:
        yield "fixed layout", f"{alike:.2f}"
    had = in_use.sum(0)
    empty = (had >= ENOUGH_IMAGES) & ((owned > 0).sum(0) <= NEARLY_NO_IMAGES * had)
    if empty.any():
        yield "empty slots", f"{int(empty.sum())} of {slots}"


def decision(masks: Float[Tensor, "b k h w"], in_use: Bool[Tensor, "b k"]) -> Float[Tensor, ""]:
    """How hard masks are, from 0 (all slots equal everywhere) to 1; images with one slot have nothing to decide."""
    equal = 1 / in_use.sum(1).clamp(min=1)
    largest = masks.amax(1).mean((1, 2))
    return torch.where(equal < 1, (largest - equal) / (1 - equal), 1.0).mean()


def stripedness(labels: Int[Tensor, "b h w"]) -> Float[Tensor, ""]:
    """Boundaries between segments along the rarer axis for each along the other, over images with any; NaN if none."""
    down = (labels[:, 1:] != labels[:, :-1]).double().mean((1, 2))
    across = (labels[:, :, 1:] != labels[:, :, :-1]).double().mean((1, 2))
    return (torch.minimum(down, across) / torch.maximum(down, across)).nanmean()


def likeness(labels: Int[Tensor, "b h w"], slots: int) -> Float[Tensor, ""]:
    """Mean ARI between the segmentations of different images, from 1 where the image does not matter."""
    scores = [
        adjusted_rand_index(contingency(labels, labels.roll(shift, 0), slots, slots))
        for shift in range(1, min(NEIGHBOURS, len(labels) - 1) + 1)
    ]
    return torch.stack(scores).mean()
