"""What training minimises: a model's own loss, and what the quick recipe adds to it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from cocanet.config import FeedbackConfig, TrainConfig
from cocanet.functional.feedback import correct_masks
from cocanet.functional.palettes import middle_first
from cocanet.models.coca_net import as_coca_net
from cocanet.models.model import ObjectModel
from cocanet.models.output import Output

FLOOR = 1e-6
TEXTURE_SIDES = (5, 9)
"""Pixels a side of the squares in which texture is measured."""
TRUST_FROM, TRUST_GROWS = 0.2, 0.4
"""Share of a run after which an encoder's own masks are trusted, and in which that grows."""
GUIDANCE_GROWS = 0.2
"""Share of a run in which guidance grows: at once, the decoder would learn the encoder's first mistakes."""


class Objective(nn.Module):
    """A model and its loss as one module, so that wrappers for many devices see a scalar only."""

    def __init__(self, model: ObjectModel, config: TrainConfig) -> None:
        super().__init__()
        self.model, self.config = model, config

    def forward(self, images: Float[Tensor, "b 3 h w"], done: float = 0.0) -> Float[Tensor, ""]:
        """`done` is the share of the run before this step."""
        if done < self.config.encoder_first:
            alone = as_coca_net(self.model, "learning without a decoder").masks_from_below(images)
            return self._codes(alone, images, done)
        output = self._output(images)
        loss = self.config.reconstruction * self.model.loss(output, images)
        grown = min(1.0, max(0.0, (done - self.config.guided_from) / GUIDANCE_GROWS))
        if guidance := self.config.mask_guidance * grown:
            loss = loss + guidance * mask_guidance(output)
        if (self.config.colour_code or self.config.figure) and not self.config.encoder_rests:
            made = output.encoder_masks if output.masks_from_below is None else output.masks_from_below
            loss = loss + self._codes(made, images, done)
        return loss

    def _output(self, images: Float[Tensor, "b 3 h w"]) -> Output:
        config, ways = self.config, dict[str, Any]()
        if config.decoder_apart:
            ways |= {"apart": True, "resting": config.encoder_rests}
        if not config.feedback:
            ways |= {"feedback": FeedbackConfig(rounds=0)}
        out: Output = self.model(images, **ways)
        return out

    def _codes(
        self, masks: Float[Tensor, "b k h w"], images: Float[Tensor, "b 3 h w"], done: float
    ) -> Float[Tensor, ""]:
        """What teaches the encoder without a decoder."""
        config, loss = self.config, masks.new_zeros(())
        if config.colour_code:
            colours = described(images, config.chroma, config.light, config.texture)
            loss = loss + config.colour_code * colour_code(masks, colours, config.colour_entropy, config.colour_noise)
        if config.figure:
            trust = config.figure_trust * min(1.0, max(0.0, (done - TRUST_FROM) / TRUST_GROWS))
            feedback = as_coca_net(self.model, "learning from feedback").config.feedback
            loss = loss + config.figure * figure_code(masks, images, feedback, config.figure_spread, trust)
        return loss


def figure_code(
    masks: Float[Tensor, "b k h w"],
    images: Float[Tensor, "b 3 h w"],
    feedback: FeedbackConfig,
    spread: float,
    trust: float,
) -> Float[Tensor, ""]:
    """Cross-entropy of the masks against what feedback makes of a thing in the middle, which gets no gradient.

    Of one photograph feedback can only tell that some colours are those of the middle. A network that learns from
    thousands keeps what they agree on; as it gets better it is trusted more, and feedback begins from what it found.
    """
    with torch.no_grad():
        begun = middle_first(masks.float(), spread, trust)
        used = torch.ones(begun.shape[:2], dtype=torch.bool, device=begun.device)
        found = correct_masks(begun, images.float(), used, **asdict(feedback))
    return -(found * masks.clamp(min=FLOOR).log()).sum(1).mean()


def mask_guidance(output: Output) -> Float[Tensor, ""]:
    """Cross-entropy of the decoder's masks against the encoder's segmentation, which gets no gradient from it.

    By reconstruction alone a decoder shades an object by mixing in a dark background: the picture is right, the
    masks are full of holes.
    """
    owner = output.encoder_masks.detach().argmax(1, keepdim=True)
    return -output.decoder_masks.gather(1, owner).clamp(min=FLOOR).log().mean()


def described(
    images: Float[Tensor, "b 3 h w"], chroma: float, light: float, texture: float
) -> Float[Tensor, "b c h w"]:
    """What the colour code describes: the images themselves at weights of 1, 1 and 0.

    Shade changes brightness and leaves the rest, so that objects with a dark side want little `light`; backgrounds
    with a pattern want `texture`, the deviation of brightness in the squares around a pixel, which stays the same
    where brightness itself does not.
    """
    brightness = images.mean(1, keepdim=True)
    plain = images if chroma == light == 1 else chroma * (images - brightness) + light * brightness
    if not texture:
        return plain
    return torch.cat((plain, *(texture * local_deviation(brightness, side) for side in TEXTURE_SIDES)), 1)


def local_deviation(brightness: Float[Tensor, "b 1 h w"], side: int) -> Float[Tensor, "b 1 h w"]:
    """Standard deviation in the square of `side` pixels around each; beyond the edge its pixels are repeated."""
    padded = F.pad(brightness, [side // 2] * 4, mode="replicate")
    mean, square = (F.avg_pool2d(x, side, 1) for x in (padded, padded.square()))
    return (square - mean.square()).clamp(min=0).sqrt()


def colour_code(
    masks: Float[Tensor, "b k h w"], images: Float[Tensor, "b c h w"], entropy: float, noise: float = 0.0
) -> Float[Tensor, ""]:
    """What it costs to describe an image by its masks and one colour for each: error, and entropy of the masks.

    It tells the encoder what to part long before a decoder can. `entropy` is the price of a nat. It keeps one
    background in one mask: a background in two halves costs most of a nat, an object of its own very little.
    With `noise` the error is the description length of colours in nats, 3/2·log(error + noise) for each image: a
    price that scales itself, for where errors are small already, small objects are still worth a mask.
    """
    part, pixels = masks.flatten(2), images.flatten(2).mT
    area = part.sum(-1, keepdim=True)
    colours = part @ pixels / area.clamp(min=1.0)
    squared = (part.mT @ colours - pixels).square()
    error = (1.5 * (squared.sum(-1).mean(-1) + noise).log()).mean() if noise else squared.mean()
    share = (area / part.shape[-1]).clamp(min=FLOOR)
    return error - entropy * (share * share.log()).sum(1).mean()
