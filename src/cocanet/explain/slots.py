"""What a slot stands for: its own picture, the scene without it, and what it was before feedback."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from cocanet.models.coca_net import CocaNet, Encoding
from cocanet.models.decoder import Painting
from cocanet.models.tokens import TokenDecoder


class SlotPictures(NamedTuple):
    """The slots in use of one image, each by itself; colours in [0, 1]."""

    pictures: Float[np.ndarray, "k h w 3"]
    masks: Float[np.ndarray, "k h w"]
    """The decoder's."""


def slot_pictures(model: CocaNet, found: Encoding, painting: Painting) -> SlotPictures:
    """Each slot's own picture, of the one image that was found.

    A decoder by tokens paints the whole image; what it tells of one slot alone is that slot's picture.
    """
    used = found.in_use[0]
    pictures = painting.slot_images[0][used]
    if isinstance(model.decoder, TokenDecoder):
        count = int(used.sum())
        alone = torch.eye(count, dtype=torch.bool, device=used.device)
        pictures = model.decoder.generate(found.slots[0][used].expand(count, -1, -1), alone)
    return SlotPictures(_picture(pictures), np.asarray(painting.masks[0][used].float().cpu().numpy()))


def scene_of(
    model: CocaNet, found: Encoding, painting: Painting, kept: Bool[np.ndarray, " k"]
) -> Float[np.ndarray, "h w 3"]:
    """The scene of some of the slots in use: what the decoder paints where the others are not there."""
    used = found.in_use[0]
    keep = torch.from_numpy(kept).to(used.device)
    if isinstance(model.decoder, TokenDecoder):
        picture = model.decoder.generate(found.slots[:1, used], keep.unsqueeze(0))[0]
    else:
        picture = mixture_of(painting.slot_images[0][used], painting.masks[0][used], keep)
    return _picture(picture)


def mixture_of(
    pictures: Float[Tensor, "k 3 h w"], masks: Float[Tensor, "k h w"], kept: Bool[Tensor, " k"]
) -> Float[Tensor, "3 h w"]:
    """Slots' pictures mixed without some of them: the others share a pixel as a softmax over them alone would."""
    held = masks * kept[:, None, None]
    total = held.sum(0)
    even = kept / kept.sum().clamp(min=1)
    shares = torch.where(total > 0, held / total.clamp(min=torch.finfo(masks.dtype).tiny), even[:, None, None])
    return (shares.unsqueeze(1) * pictures).sum(0)


def origins(before: Float[np.ndarray, "k h w"], after: Float[np.ndarray, "k h w"]) -> Float[np.ndarray, "k k"]:
    """Of the pixels that feedback left with a slot (row), the share that each slot (column) had before it."""
    count = len(before)
    pairs = after.argmax(0) * count + before.argmax(0)
    pixels = np.bincount(pairs.ravel(), minlength=count**2).reshape(count, count)
    return np.asarray(pixels / np.maximum(pixels.sum(1, keepdims=True), 1))


def _picture(colours: Float[Tensor, "*k 3 h w"]) -> Float[np.ndarray, "*k h w 3"]:
    return np.asarray(colours.detach().float().clamp(0, 1).movedim(-3, -1).cpu().numpy())
