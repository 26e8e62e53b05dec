"""A tiny model, outputs made by hand, and the panels of a figure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from matplotlib.figure import Figure

import cocanet
from cocanet.config import DataConfig, Preset
from cocanet.models.coca_net import CocaNet
from cocanet.models.output import Output
from tests.tiny import SHALLOW, images, small

CONFIG = small(levels=tuple(replace(level, temperature=2.0) for level in small().levels), decoder=SHALLOW)
PRESET = Preset("tiny", CONFIG, DataConfig("tetrominoes", background_labels=2))


def tiny_model(**changes) -> CocaNet:
    return cocanet.build(replace(CONFIG, **changes), seed=0).eval()


def tiny_images(count: int = 2, seed: int = 0) -> torch.Tensor:
    return images(CONFIG, count, seed)


def output_of(decoder: torch.Tensor, encoder: torch.Tensor, slots: int) -> Output:
    """The output of a model whose masks are hard and equal to these labels, `b h w`; colours exceed [0, 1]."""
    masks = [torch.nn.functional.one_hot(x, slots).permute(0, 3, 1, 2).float() for x in (decoder, encoder)]
    batch, height, width = decoder.shape
    return Output(
        slots=torch.zeros(batch, slots, 4),
        slot_images=torch.linspace(-0.5, 1.5, batch * slots * 3 * height * width).view(batch, slots, 3, height, width),
        decoder_masks=masks[0],
        encoder_masks=masks[1],
        in_use=torch.ones(batch, slots, dtype=torch.bool),
        reconstruction=torch.linspace(-0.5, 1.5, batch * 3 * height * width).view(batch, 3, height, width),
    )


def panels(figure: Figure) -> list[np.ndarray]:
    """The image of every panel, in the order they were drawn."""
    return [np.asarray(image.get_array()) for image in figure.axes[0].images]


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]
