"""A slot's own frame: the pixel it is centred on, its shape as seen from there, and its cell of the decoder's grid."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from cocanet.config import DecoderConfig
from cocanet.functional.geometry import EMPTY, pixel_geometry
from cocanet.layers.position import ShapeEmbedding, window_about
from cocanet.models.output import Level

SHIFTS = 3
"""Mean shifts from an anchor to the local centre of its mask."""


class Framed(NamedTuple):
    """Slots that know their shape, and the cell of the decoder's grid that each is centred on."""

    slots: Float[Tensor, "b k d"]
    cells: Int[Tensor, "b k 2"]


class SlotFrame(ShapeEmbedding):
    """Adds its shape to every slot, and says where the decoder draws it.

    The shape is seen from the exact centre; the decoder's grid may be coarser, so that a slot is drawn up to half a
    cell off: nothing where every pixel is a cell, a pixel at most in the quick recipe at 128 pixels.
    """

    def __init__(self, decoder: DecoderConfig, image_size: tuple[int, int], dim: int) -> None:
        super().__init__(*image_size, dim, decoder.octaves)
        self.image_size, self.grid = image_size, decoder.broadcast

    def place(
        self,
        slots: Float[Tensor, "b k d"],
        masks: Float[Tensor, "b k h w"],
        levels: tuple[Level, ...],
        over_nodes: Float[Tensor, "b k n"] | None = None,
    ) -> Framed:
        """Slots in their frames; `over_nodes` are masks that the anchors of the last level did not give."""
        centres = local_centres(levels, masks.detach(), over_nodes)
        sides = zip(centres.unbind(-1), self.grid, self.image_size, strict=True)
        cells = torch.stack([x * count // side for x, count, side in sides], -1)
        return Framed(slots + self(masks, centres), cells)


@torch.no_grad()
def local_centres(
    levels: tuple[Level, ...], masks: Float[Tensor, "b k h w"], over_nodes: Float[Tensor, "b k n"] | None = None
) -> Int[Tensor, "b k 2"]:
    """The pixel each slot is centred on: a mean shift over its pixels from its anchor.

    Of two pieces in one slot it finds one, where the centre of mass would lie between them. The last slot has no
    anchor and starts from the node that it has most of; so do all where `over_nodes`, their masks over the last
    level's nodes, are not those that the anchors gave.
    """
    top = levels[-1].clusters
    image_size = (masks.shape[-2], masks.shape[-1])
    nodes = levels[-2].clusters.geometry if len(levels) > 1 else pixel_geometry(*image_size, device=masks.device)
    batch = masks.shape[0]
    area, position = nodes.area.reshape(-1, top.masks.shape[-1]), nodes.position.reshape(-1, top.masks.shape[-1], 2)
    if over_nodes is None:
        most = (top.masks[:, 0, -1] * area).argmax(-1, keepdim=True)
        start = torch.cat((top.anchors[:, 0], most), -1)
    else:
        start = (over_nodes * area.unsqueeze(1)).argmax(-1)
    centres = position.expand(batch, -1, -1).gather(1, start.unsqueeze(-1).expand(-1, -1, 2))
    lines = [torch.arange(side, dtype=masks.dtype, device=masks.device) for side in image_size]
    for _ in range(SHIFTS):
        near = masks * window_about(centres, image_size)
        total = near.sum((-2, -1)).clamp(min=EMPTY)
        moments = [near.sum(axis) @ line for axis, line in zip((-1, -2), lines, strict=True)]
        centres = torch.stack(moments, -1) / total.unsqueeze(-1)
    limit = torch.tensor(image_size, device=masks.device) - 1
    return centres.round().long().clamp(min=0).minimum(limit)
