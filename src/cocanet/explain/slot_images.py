"""What the decoder makes of single slots, and of scenes without some of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from cocanet.models.coca_net import CocaNet
from cocanet.models.output import Decoded, Encoding
from cocanet.models.tokens import TokenDecoder


class SlotImages(NamedTuple):
    """Image and decoder mask of each slot in use of one image; colours in [0, 1]."""

    images: Float[np.ndarray, "k h w 3"]
    masks: Float[np.ndarray, "k h w"]


def decode_slots(model: CocaNet, encoding: Encoding, decoded: Decoded) -> SlotImages:
    """Each slot by itself, for a batch of one image.

    A token decoder reconstructs all slots in one image; here it generates one image from each slot alone.
    """
    used = encoding.in_use[0]
    images = decoded.slot_images[0][used]
    if isinstance(model.decoder, TokenDecoder):
        count = int(used.sum())
        alone = torch.eye(count, dtype=torch.bool, device=used.device)
        images = model.decoder.generate(encoding.slots[0][used].expand(count, -1, -1), alone)
    return SlotImages(_colours(images), np.asarray(decoded.masks[0][used].float().cpu().numpy()))


def decode_scene(
    model: CocaNet, encoding: Encoding, decoded: Decoded, kept: Bool[np.ndarray, " k"]
) -> Float[np.ndarray, "h w 3"]:
    """The reconstruction from those slots in use that are `kept`, for a batch of one image."""
    used = encoding.in_use[0]
    keep = torch.from_numpy(kept).to(used.device)
    if isinstance(model.decoder, TokenDecoder):
        return _colours(model.decoder.generate(encoding.slots[:1, used], keep.unsqueeze(0))[0])
    return _colours(mix_slots(decoded.slot_images[0][used], decoded.masks[0][used], keep))


def mix_slots(
    images: Float[Tensor, "k 3 h w"], masks: Float[Tensor, "k h w"], kept: Bool[Tensor, " k"]
) -> Float[Tensor, "3 h w"]:
    """Slot images mixed by a softmax over the kept slots alone; pixels where all of these have mask 0 mix evenly."""
    weights = masks * kept[:, None, None]
    total = weights.sum(0)
    even = kept / kept.sum().clamp(min=1)
    shares = torch.where(total > 0, weights / total.clamp(min=torch.finfo(masks.dtype).tiny), even[:, None, None])
    return (shares.unsqueeze(1) * images).sum(0)


def _colours(images: Float[Tensor, "*k 3 h w"]) -> Float[np.ndarray, "*k h w 3"]:
    return np.asarray(images.detach().float().clamp(0, 1).movedim(-3, -1).cpu().numpy())
