"""The slot-centric frame of a decoder: each slot's centre, and the shape of its mask about it."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from cocanet.config import DecoderConfig
from cocanet.functional.geometry import EMPTY, pixel_geometry
from cocanet.layers.position import ShapeEmbedding, window_about
from cocanet.models.output import Encoding, Level

SHIFTS = 3
"""Mean shifts from an anchor to the local centre of its mask."""


class Framed(NamedTuple):
    """Slots with the shape of their masks added, and the cell of the decoder's grid that each is centred on."""

    slots: Float[Tensor, "b k d"]
    cells: Int[Tensor, "b k 2"]


class SlotFrame(ShapeEmbedding):
    """Adds the shape of its mask to each slot, and centres it on the decoder's grid.

    The shape is described about the exact centre. On a coarser decoder grid a slot is decoded up to half a cell off.
    """

    def __init__(self, decoder: DecoderConfig, dim: int) -> None:
        super().__init__(*decoder.output_size, dim, decoder.octaves)
        self.image_size, self.grid = decoder.output_size, decoder.broadcast

    def forward(self, encoding: Encoding) -> Framed:
        centres = local_centres(encoding.levels, encoding.masks.detach())
        sides = zip(centres.unbind(-1), self.grid, self.image_size, strict=True)
        cells = torch.stack([x * count // side for x, count, side in sides], -1)
        return Framed(encoding.slots + self.embed(encoding.masks, centres), cells)


@torch.no_grad()
def local_centres(levels: tuple[Level, ...], masks: Float[Tensor, "b k h w"]) -> Int[Tensor, "b k 2"]:
    """The pixel each slot is centred on: a mean shift over its mask, from its anchor.

    Of two components in one mask it finds one, where the centre of mass would lie between them. The last slot has no
    anchor and starts from the node with most of its mask.
    """
    top = levels[-1].clusters
    image_size = (masks.shape[-2], masks.shape[-1])
    nodes = levels[-2].clusters.geometry if len(levels) > 1 else pixel_geometry(*image_size, device=masks.device)
    batch = masks.shape[0]
    area, position = nodes.area.reshape(-1, top.masks.shape[-1]), nodes.position.reshape(-1, top.masks.shape[-1], 2)
    most = (top.masks[:, 0, -1] * area).argmax(-1, keepdim=True)
    start = torch.cat((top.anchors[:, 0], most), -1)
    centres = position.expand(batch, -1, -1).gather(1, start.unsqueeze(-1).expand(-1, -1, 2))
    lines = [torch.arange(side, dtype=masks.dtype, device=masks.device) for side in image_size]
    for _ in range(SHIFTS):
        near = masks * window_about(centres, image_size)
        total = near.sum((-2, -1)).clamp(min=EMPTY)
        moments = [near.sum(axis) @ line for axis, line in zip((-1, -2), lines, strict=True)]
        centres = torch.stack(moments, -1) / total.unsqueeze(-1)
    limit = torch.tensor(image_size, device=masks.device) - 1
    return centres.round().long().clamp(min=0).minimum(limit)
