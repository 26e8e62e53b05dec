"""What training does to images: shifts by a random offset, edges repeated, and tints that take their colours away."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
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


def tints(seed: int, places: Int[np.ndarray, " b"], share: float) -> Float[Tensor, "b 3"]:
    """A colour for `share` of the samples, by their place in the run; NaN for those that keep theirs."""
    chance, *channels = uniforms(seed ^ _STREAM, places, first=2, draws=4).T
    colours = np.stack(channels, -1)
    colours /= colours.max(-1, keepdims=True)
    colours[chance >= share] = np.nan
    return torch.from_numpy(colours.astype(np.float32))


def tint(images: Float[Tensor, "b 3 h w"], colours: Float[Tensor, "b 3"]) -> Float[Tensor, "b 3 h w"]:
    """Images in shades of one colour each: as bright as their brightest channel. NaN leaves an image as it is."""
    shades = images.amax(1, keepdim=True) * colours[..., None, None]
    return torch.where(shades.isnan(), images, shades)


def _source(length: int, offset: Int[Tensor, " b"], pad: int) -> Int[Tensor, "b n"]:
    """Where each row or column of the crop comes from; beyond the edge, from the edge."""
    steps = torch.arange(length, device=offset.device)
    return (steps + offset[:, None] - pad).clamp(0, length - 1)
