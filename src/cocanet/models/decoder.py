"""Spatial broadcast decoder: each slot is decoded to an image and a mask (supplement, Table 5)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from cocanet.config import ConvConfig, DecoderConfig
from cocanet.functional.tracing import exporting
from cocanet.layers.linear import conv, transposed_conv
from cocanet.layers.position import OffsetEmbedding, PositionEmbedding
from cocanet.layers.precision import at_least_float32
from cocanet.models.output import Decoded, Encoding
from cocanet.models.slot_frame import SlotFrame

LEAST = 1e-3
"""The least value of an encoder mask in the prior: a pixel outside it can still be the slot's."""
AT_ONCE = 1 << 23
"""Values of the widest layer that are computed at a time without gradient: 32 MB, which the allocator reuses."""


class SlotDecoder(nn.Module):
    """The interface of every decoder. A token decoder needs the images in training: it predicts their tokens."""

    def forward(self, encoding: Encoding, images: Float[Tensor, "b 3 h w"]) -> Decoded:
        raise NotImplementedError


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
        """Of slots and `of_position`; with `centres`, positions are offsets from each slot's own centre."""
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


class BroadcastDecoder(SlotDecoder):
    """Slots to images and masks, mixed by a softmax over the slots.

    With `frame`, a slot is decoded about its own centre, and knows the shape of its mask. With `prior`, masks begin
    from those of the encoder.
    """

    def __init__(self, config: DecoderConfig, dim: int) -> None:
        super().__init__()
        embedding = OffsetEmbedding if config.frame == "slot" else PositionEmbedding
        self.position = embedding(*config.broadcast, dim, octaves=config.octaves)
        self.first = BroadcastConv(dim, config.layers[0], config.broadcast)
        widths = [layer.channels for layer in config.layers]
        height, width = config.output_size
        self.at_once = max(1, AT_ONCE // (max(widths) * height * width))
        self.rest = nn.ModuleList(
            decoder_layer(width, layer) for width, layer in zip(widths[:-1], config.layers[1:], strict=True)
        )
        self.frame = SlotFrame(config, dim) if config.frame == "slot" else None
        self.prior = None if config.prior_from is None else MaskPrior(config.prior_from)
        self.pointwise = config.pointwise

    def forward(self, encoding: Encoding, images: Float[Tensor, "b 3 h w"]) -> Decoded:
        return mix(self.layers(encoding), encoding.in_use)

    def layers(self, encoding: Encoding) -> Float[Tensor, "b k 4 h w"]:
        """Colours and mask logits of each slot."""
        slots, cells = (encoding.slots, None) if self.frame is None else self.frame(encoding)
        decoded = self.decode(slots, encoding.in_use, cells)
        if self.prior is None:
            return decoded
        prior = self.prior(encoding.masks).unsqueeze(2)
        return torch.cat((decoded[:, :, :3], decoded[:, :, 3:] + prior), 2)

    def anneal(self, done: float) -> None:
        if self.prior is not None:
            self.prior.anneal(done)

    def decode(
        self, slots: Float[Tensor, "b k d"], in_use: Bool[Tensor, "b k"], cells: Int[Tensor, "b k 2"] | None = None
    ) -> Float[Tensor, "b k 4 h w"]:
        """Colours and mask logits of each slot; `cells` are the slots' centres on the decoder's grid."""
        shared = self.first.of_position(self.position())
        each, centres = slots.flatten(0, 1), None if cells is None else cells.flatten(0, 1)
        if torch.is_grad_enabled() or exporting():
            decoded = self._decode(each, shared, centres)
        else:
            decoded = self._decode_used(each, in_use.flatten(), shared, centres)
        return at_least_float32(decoded.unflatten(0, slots.shape[:2]))

    def decode_pixels(self, encoding: Encoding, pixels: Int[Tensor, " n"]) -> Float[Tensor, "b k n 4"]:
        """Colours and mask logits of each slot at some pixels, for a pointwise decoder.

        The values are those of `layers` at these pixels, at a cost in proportion to their number.
        """
        assert self.pointwise, "only a pointwise decoder decodes single pixels"
        shared = self.first.of_position(self.position()).squeeze(0)
        slots, index = encoding.slots, pixels
        if self.frame is not None:
            slots, centres = self.frame(encoding)
            height, width = (side // 2 + 1 for side in shared.shape[1:])
            row = pixels // width + height - 1 - centres[..., :1]
            column = pixels % width + width - 1 - centres[..., 1:]
            index = row * shared.shape[2] + column
        position = shared.flatten(1).mT[index]
        x: Tensor = position + F.linear(slots, self.first.conv.weight.flatten(1)).unsqueeze(-2)
        for layer in self.rest:
            assert isinstance(layer, nn.Conv2d)
            x = F.linear(F.relu_(x), layer.weight.flatten(1), layer.bias)
        x = at_least_float32(x)
        if self.prior is None:
            return x
        prior = self.prior(encoding.masks.flatten(2)[..., pixels]).unsqueeze(-1)
        return torch.cat((x[..., :3], x[..., 3:] + prior), -1)

    def _decode(
        self, slots: Float[Tensor, "m d"], shared: Float[Tensor, "1 c rows columns"], cells: Int[Tensor, "m 2"] | None
    ) -> Float[Tensor, "m 4 h w"]:
        x: Tensor = self.first(slots, shared, cells)
        for layer in self.rest:
            x = layer(F.relu_(x))
        return x

    def _decode_used(
        self,
        slots: Float[Tensor, "m d"],
        in_use: Bool[Tensor, " m"],
        shared: Float[Tensor, "1 c rows columns"],
        cells: Int[Tensor, "m 2"] | None,
    ) -> Float[Tensor, "m 4 h w"]:
        """A few slots at a time, without those that are not in use: these stay grey."""
        used = in_use.nonzero().flatten()
        parts = used.split(self.at_once)
        decoded = torch.cat([self._decode(slots[i], shared, None if cells is None else cells[i]) for i in parts])
        if len(used) == len(slots):
            return decoded
        return decoded.new_zeros(len(slots), *decoded.shape[1:]).index_copy_(0, used, decoded)


class MaskPrior(nn.Module):
    """Encoder masks as a prior of the decoder's: what to add to its mask logits.

    Where several slots reconstruct a pixel equally well, reconstruction does not say whose it is; the prior does. It
    comes late in a run: slots need not describe the shape of a mask that the decoder is given.
    """

    weight: Tensor

    def __init__(self, begins: float) -> None:
        super().__init__()
        self.begins = begins
        self.register_buffer("weight", torch.zeros(()))

    def forward(self, masks: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]:
        return self.weight * masks.detach().clamp(min=LEAST).log()

    def anneal(self, done: float) -> None:
        self.weight.fill_(float(done >= self.begins))


def mix(layers: Float[Tensor, "b k 4 h w"], in_use: Bool[Tensor, "b k"]) -> Decoded:
    """Mix slots by a softmax over them; `layers` has three channels of colour in [-1, 1] and one of mask logits."""
    slot_images = (layers[:, :, :3] + 1) / 2
    logits = layers[:, :, 3].masked_fill(~in_use[..., None, None], -torch.inf)
    masks = logits.softmax(1)
    return Decoded(slot_images, masks, (slot_images * masks.unsqueeze(2)).sum(1))


def mix_pixels(layers: Float[Tensor, "b k n 4"], in_use: Bool[Tensor, "b k"]) -> Float[Tensor, "b n 3"]:
    """`mix` for some pixels: their reconstruction in [0, 1]."""
    masks = layers[..., 3].masked_fill(~in_use[..., None], -torch.inf).softmax(1)
    return ((layers[..., :3] + 1) / 2 * masks.unsqueeze(-1)).sum(1)


def decoder_layer(inputs: int, config: ConvConfig) -> nn.Conv2d | nn.ConvTranspose2d:
    """A convolution that keeps the resolution, or a transposed one that enlarges it by its stride."""
    if config.stride == 1:
        return conv(inputs, config.channels, config.kernel, padding=config.kernel // 2)
    return transposed_conv(inputs, config.channels, config.kernel, config.stride)
