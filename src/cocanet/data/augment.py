"""Pad and random crop: shift every image of a batch by its own offset, edges repeated."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from cocanet.data.scenes.streams import pick, uniforms

# Keeps the offsets' streams apart from a scene generator's of the same seed.
_STREAM = 0x5EED_C409


def crop_offsets(seed: int, places: Int[np.ndarray, " b"], pad: int) -> Int[Tensor, "b 2"]:
    """The offset 0 … 2·pad down and right of each sample, by its place in the whole training run.

    They depend on nothing else: a resumed or distributed run, or one with another batch size, draws the same.
    """
    return torch.from_numpy(pick(uniforms(seed ^ _STREAM, places, first=0, draws=2), 2 * pad + 1))


def pad_and_crop(
    images: Shaped[Tensor, "b h w *c"], offsets: Int[Tensor, "b 2"], pad: int
) -> Shaped[Tensor, "b h w *c"]:
    """Pad by repeating the edge, then crop to the old size at each image's offset; `pad` leaves it in place.

    Works on whatever device and type the images have. Labels go through with the same offsets.
    """
    height, width = images.shape[1:3]
    rows = _source(height, offsets[:, 0], pad)
    columns = _source(width, offsets[:, 1], pad)
    batch = torch.arange(len(images), device=images.device)
    pixels = (batch[:, None, None] * height + rows[:, :, None]) * width + columns[:, None, :]
    # One flat index: on a CPU about five times as fast as indexing three axes.
    return images.flatten(0, 2).index_select(0, pixels.flatten()).reshape(images.shape)


def _source(length: int, offset: Int[Tensor, " b"], pad: int) -> Int[Tensor, "b n"]:
    """Where each row or column of the crop comes from; beyond the edge, from the edge."""
    steps = torch.arange(length, device=offset.device)
    return (steps + offset[:, None] - pad).clamp(0, length - 1)
