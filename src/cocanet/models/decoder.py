"""Spatial broadcast decoder: each slot paints a picture and says where it counts (supplement, Table 5)."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from cocanet.config import ConvConfig, DecoderConfig
from cocanet.functional.tracing import exporting
from cocanet.layers.linear import conv, transposed_conv
from cocanet.layers.position import OffsetEmbedding, PositionEmbedding

LEAST_PRIOR = 1e-3
"""Least value of the encoder's masks as a prior: the decoder can overrule any of them."""
AT_ONCE = 1 << 23
"""Values of the widest layer that are made at a time where nobody wants a gradient: 32 MB, for which memory that was
just freed can be had again at once."""


class Painting(NamedTuple):
    """The decoder's view of a batch: each slot's picture and mask, and their mixture; colours in [0, 1]."""

    slot_images: Float[Tensor, "b k 3 h w"]
    masks: Float[Tensor, "b k h w"]
    mixture: Float[Tensor, "b 3 h w"]
    loss: Float[Tensor, ""] | None = None
    """What the decoder minimises, if not the mixture's error."""


class BroadcastConv(nn.Module):
    """A convolution of slot + position over a grid, without laying the slot out on the grid.

    A slot is the same in every cell, so its part of the output is a sum of those kernel taps that fall inside the
    grid, and which do is a matter of row and column separately: two small matrix products. The position's part is the
    same for all slots and is convolved once.
    """

    rows: Tensor
    columns: Tensor

    def __init__(self, dim: int, layer: ConvConfig, grid: tuple[int, int]) -> None:
        super().__init__()
        self.conv = decoder_layer(dim, layer)
        for name, cells in zip(("rows", "columns"), grid, strict=True):
            self.register_buffer(name, taps_inside(cells, layer.kernel, layer.stride), persistent=False)

    def of_position(self, position: Float[Tensor, "rows columns d"]) -> Float[Tensor, "1 c height width"]:
        """The position's part of the output."""
        out: Tensor = self.conv(rearrange(position, "h w d -> 1 d h w"))
        return out

    def forward(
        self,
        slots: Float[Tensor, "m d"],
        shared: Float[Tensor, "1 c rows columns"],
        centres: Int[Tensor, "m 2"] | None = None,
    ) -> Float[Tensor, "m c height width"]:
        """Of slots and `of_position`; with `centres` that is of offsets, and a slot sees those from its own centre."""
        if centres is not None:
            stride = self.conv.stride[0]
            corners = (torch.tensor(shared.shape[2:]) // (2 * stride) - centres.cpu()) * stride
            shared = cut_out(shared.squeeze(0), corners, (self.rows.shape[1], self.columns.shape[1]))
        weight = self.conv.weight
        if isinstance(self.conv, nn.ConvTranspose2d):
            weight = weight.transpose(0, 1)
        taps = slots @ rearrange(weight, "c d i j -> d (c j i)")
        by_column = rearrange(taps, "m (c j i) -> m c j i", c=len(weight), i=len(self.rows)) @ self.rows
        return (by_column.mT @ self.columns).add_(shared)


def taps_inside(cells: int, kernel: int, stride: int) -> Float[Tensor, "kernel outputs"]:
    """Which taps of a kernel fall inside a line of cells at each output; a stride above 1 is that of enlargement."""
    output, tap = torch.arange(cells * stride), torch.arange(kernel)[:, None]
    if stride == 1:
        source = output + tap - kernel // 2
        return ((source >= 0) & (source < cells)).float()
    source = output + kernel // 2 - tap
    return ((source % stride == 0) & (source >= 0) & (source < cells * stride)).float()


def cut_out(
    image: Float[Tensor, "c rows columns"], corners: Int[Tensor, "m 2"], size: tuple[int, int]
) -> Float[Tensor, "m c height width"]:
    """Pieces of one size out of an image."""
    height, width = size
    if exporting():
        row, column = corners.unbind(-1)
        rows, columns = (x[:, None] + torch.arange(side) for x, side in ((row, height), (column, width)))
        return image[:, rows[:, :, None], columns[:, None]].transpose(0, 1)
    return torch.stack([image[:, r : r + height, c : c + width] for r, c in corners.tolist()])


class BroadcastDecoder(nn.Module):
    """Slots to pictures and masks."""

    def __init__(self, config: DecoderConfig, dim: int) -> None:
        super().__init__()
        self.prior = config.prior
        embedding = OffsetEmbedding if config.frame == "slot" else PositionEmbedding
        self.position = embedding(*config.broadcast, dim, octaves=config.octaves)
        self.first = BroadcastConv(dim, config.layers[0], config.broadcast)
        widths = [layer.channels for layer in config.layers]
        height, width = config.output_size
        self.at_once = max(1, AT_ONCE // (max(widths) * height * width))
        self.rest = nn.ModuleList(
            decoder_layer(width, layer) for width, layer in zip(widths[:-1], config.layers[1:], strict=True)
        )

    def forward(
        self,
        slots: Float[Tensor, "b k d"],
        in_use: Bool[Tensor, "b k"],
        centres: Int[Tensor, "b k 2"] | None = None,
        found: Float[Tensor, "b k h w"] | None = None,
    ) -> Painting:
        """`centres` are the slots' own cells of the grid, for a decoder in the slots' frame; `found` are the encoder's
        masks, for a decoder that begins from them."""
        shared = self.first.of_position(self.position())
        each, cells = slots.flatten(0, 1), None if centres is None else centres.flatten(0, 1)
        if torch.is_grad_enabled() or exporting():
            painted = self._paint(each, shared, cells)
        else:
            painted = self._paint_used(each, in_use.flatten(), shared, cells)
        layers = painted.unflatten(0, slots.shape[:2]).float()
        if self.prior and found is not None:
            logits = layers[:, :, 3:] + self.prior * found.clamp(min=LEAST_PRIOR).log().unsqueeze(2)
            layers = torch.cat((layers[:, :, :3], logits), 2)
        return mix(layers, in_use)

    def _paint(
        self, slots: Float[Tensor, "m d"], shared: Float[Tensor, "1 c rows columns"], cells: Int[Tensor, "m 2"] | None
    ) -> Float[Tensor, "m 4 h w"]:
        x: Tensor = self.first(slots, shared, cells)
        for layer in self.rest:
            x = layer(F.relu_(x))
        return x

    def _paint_used(
        self,
        slots: Float[Tensor, "m d"],
        in_use: Bool[Tensor, " m"],
        shared: Float[Tensor, "1 c rows columns"],
        cells: Int[Tensor, "m 2"] | None,
    ) -> Float[Tensor, "m 4 h w"]:
        """A few slots at a time, and those that are not in use not at all: they stay grey."""
        used = in_use.nonzero().flatten()
        painted = torch.cat(
            [self._paint(slots[few], shared, None if cells is None else cells[few]) for few in used.split(self.at_once)]
        )
        if len(used) == len(slots):
            return painted
        return painted.new_zeros(len(slots), *painted.shape[1:]).index_copy_(0, used, painted)


def mix(layers: Float[Tensor, "b k 4 h w"], in_use: Bool[Tensor, "b k"]) -> Painting:
    """Mix slots by a softmax over them; `layers` has three channels of colour in [-1, 1] and one of mask logits."""
    slot_images = (layers[:, :, :3] + 1) / 2
    logits = layers[:, :, 3].masked_fill(~in_use[..., None, None], -torch.inf)
    masks = logits.softmax(1)
    return Painting(slot_images, masks, (slot_images * masks.unsqueeze(2)).sum(1))


def decoder_layer(inputs: int, config: ConvConfig) -> nn.Conv2d | nn.ConvTranspose2d:
    """A convolution that keeps the resolution, or a transposed one that enlarges it by its stride."""
    if config.stride == 1:
        return conv(inputs, config.channels, config.kernel, padding=config.kernel // 2)
    return transposed_conv(inputs, config.channels, config.kernel, config.stride)
