"""The known diseases of slot models, told from the masks of a batch alone, without labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from cocanet.metrics.functional.ari import adjusted_rand_index
from cocanet.metrics.functional.contingency import contingency, hard_labels
from cocanet.models.output import Output

Disease = Literal[
    "uniform masks",
    "one slot takes all",
    "stripes",
    "fixed layout",
    "empty slots",
    "encoder and decoder disagree",
]
Side = Literal["encoder", "decoder", "both"]

ENOUGH_IMAGES = 12
"""What holds in nearly all of fewer images may be their chance: one image with one small object is no disease."""
UNDECIDED = 0.1
"""Decision (0 for equal masks, 1 for hard ones) below which masks are uniform: 0.03-0.07 before training, above 0.4
once anything is learned."""
TAKES_ALL = 0.98
"""Share of the pixels; the background of ShapeStacks truly covers 96 %, and up to 99 % of some scenes."""
MOST_IMAGES = 0.5
STRIPED = 0.2
"""Boundaries along the rarer axis for each along the other, 0 for perfect stripes; true scenes have 0.5-0.9."""
SAME_MASKS = 0.8
"""ARI of masks of different images; true segments reach 0.64 where rooms and towers are always alike."""
NEARLY_NO_IMAGES = 0.03
"""Share of images; where scenes vary in number of objects, the last of them is in about every sixth."""
DISAGREEMENT = 0.2
"""ARI of both sides; about 0 before training, and 0.4 or more in models that found the objects."""
NEIGHBOURS = 3
"""Each image's masks are compared with those of this many others: the mean over all pairs is hardly different."""


class Explanation(NamedTuple):
    """What the number of a disease counts, and what usually helps."""

    number: str
    remedy: str


EXPLANATIONS: Mapping[Disease, Explanation] = {
    "uniform masks": Explanation(
        "from 0% for equal masks to 100% for hard ones",
        "no slot owns anything yet; usual early on, later try a higher learning rate with warm-up",
    ),
    "one slot takes all": Explanation(
        f"images where one owns over {TAKES_ALL:.0%} of the pixels",
        "nothing is told apart; try a higher temperature in the last level, or a longer warm-up",
    ),
    "stripes": Explanation(
        "boundaries that run one way",
        "the masks follow position, not the image; try Fourier positions in the decoder, or another seed",
    ),
    "fixed layout": Explanation(
        "ARI between the masks of different images",
        "the masks follow position, not the image; try Fourier positions in the decoder, or another seed",
    ),
    "empty slots": Explanation(
        "slots without a pixel in nearly all images",
        "try fewer slots, or a higher temperature in the last level if objects share a slot",
    ),
    "encoder and decoder disagree": Explanation(
        "ARI between their masks",
        "one side has not learned yet; usual early on, later try a higher learning rate",
    ),
}


class Finding(NamedTuple):
    """A disease, where it is, and one line that says so with the number measured and what usually helps."""

    disease: Disease
    side: Side
    message: str


@torch.inference_mode()
def diagnose(output: Output, *, decoder: bool = True) -> list[Finding]:
    """What ails a model, by its output in eval mode for 16 images or more; an empty list for a healthy one.

    Of diseases that follow from each other only the cause is named. With fewer than `ENOUGH_IMAGES` only those are
    looked for that a single image can show. Without `decoder` its masks are not looked at: one by tokens has no others
    than where each token looked.
    """
    slots = output.in_use.shape[1]
    sides: dict[Side, Tensor] = {"encoder": output.encoder_masks}
    if decoder:
        sides["decoder"] = output.decoder_masks
    labels = {side: hard_labels(masks) for side, masks in sides.items()}
    symptoms = {side: dict(_symptoms(masks, labels[side], output.in_use)) for side, masks in sides.items()}
    findings = []
    for disease in get_args(Disease):
        measured = {side: found[disease] for side, found in symptoms.items() if disease in found}
        if measured:
            findings.append(_finding(disease, measured))
    # A side that is ill in itself disagrees with any other.
    if decoder and all(disease == "empty slots" for found in symptoms.values() for disease in found):
        agreement = float(adjusted_rand_index(contingency(labels["encoder"], labels["decoder"], slots, slots)).mean())
        if agreement < DISAGREEMENT:
            findings.append(_finding("encoder and decoder disagree", {"both": f"{agreement:.2f}"}))
    return findings


def _finding(disease: Disease, measured: Mapping[Side, str]) -> Finding:
    side: Side = next(iter(measured)) if len(measured) == 1 else "both"
    values = ", ".join(value if where == "both" else f"{where} {value}" for where, value in measured.items())
    number, remedy = EXPLANATIONS[disease]
    return Finding(disease, side, f"{disease} ({number}: {values}): {remedy}")


def _symptoms(
    masks: Float[Tensor, "b k h w"], labels: Int[Tensor, "b h w"], in_use: Bool[Tensor, "b k"]
) -> Iterator[tuple[Disease, str]]:
    """Each disease of one side and the number that shows it."""
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
