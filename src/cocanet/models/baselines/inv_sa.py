"""INV-SA: Slot Attention that a shift or a change of scale of the scene leaves as it is (Biza et al., 2023; ISA-TS).

Each slot attends and is decoded in its own coordinates: relative to its position, in units of its scale.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from cocanet.config import ConvConfig
from cocanet.config.baselines import InvSaConfig
from cocanet.layers.linear import ReluMLP, conv, linear
from cocanet.layers.precision import full_precision
from cocanet.models.baselines.parts import (
    EVALUATION_SEED,
    Attended,
    AttentionModel,
    ConvEncoder,
    SlotUpdate,
    coordinates,
)
from cocanet.models.decoder import SlotDecoder, decoder_layer
from cocanet.models.output import Decoded, Encoding, Output

EPS = 1e-6
"""In every layer normalisation."""
SCALES = (0.001, 2.0)
"""The least and the greatest scale."""
SHRINKAGE = 0.87962566103423978
"""Standard deviation of a standard normal cut off at ±2."""


class Frames(NamedTuple):
    """Where slots are and how far they spread, row and column each, in an image from -1 to 1."""

    positions: Float[Tensor, "b k 2"]
    scales: Float[Tensor, "b k 2"]


def cells(height: int, width: int) -> Float[Tensor, "n 2"]:
    """Row and column of each cell of a grid, from -1 to 1, row by row."""
    return coordinates(height, width).flatten(1).T.contiguous()


def in_frames(grid: Float[Tensor, "n 2"], frames: Frames, scale_unit: float | None) -> Float[Tensor, "b k n 2"]:
    """The grid in each slot's own coordinates; without `scale_unit` only relative to its position."""
    offsets = grid - frames.positions.unsqueeze(2)
    return offsets if scale_unit is None else offsets / (scale_unit * frames.scales.unsqueeze(2))


def find_frames(weights: Float[Tensor, "b k n"], grid: Float[Tensor, "n 2"]) -> Frames:
    """Centre and standard deviation of where slots look."""
    positions = weights @ grid
    spread = (grid - positions.unsqueeze(2)).square()
    scales = ((weights + 1e-8).unsqueeze(2) @ spread).squeeze(2).sqrt()
    return Frames(positions, scales.clamp(*SCALES))


class Projected(NamedTuple):
    """Features of positions as `RelativeEncoder` needs them, the same for all slots."""

    inner: Float[Tensor, "b n h"]
    """Through the inner linear map."""
    square: Float[Tensor, "b n"]
    """Squared length."""
    along: Float[Tensor, "b n 2"]
    """Inner products with the two columns of the coordinates' embedding."""


class Hidden(NamedTuple):
    """The MLP's hidden features, each position's multiplied by a factor that the caller divides out."""

    features: Float[Tensor, "b k n h"]
    factor: Float[Tensor, "b k n"]


class RelativeEncoder(nn.Module):
    """f(x + W r + b) for features x of n positions and coordinates r of k·n: f normalises and applies an MLP.

    The normalisation is linear up to a division by the standard deviation. So its mean and scale and the inner linear
    map are one matrix, which is applied to n features and to two columns of W instead of to k·n sums; the variance is
    a quadratic form in r; and the division passes through the ReLU. The outer linear map is the caller's: it applies
    it to the slots' queries and means, again not to k·n positions.
    """

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.position = linear(2, dim)
        self.norm = nn.LayerNorm(dim, eps=EPS)
        self.mlp = ReluMLP(dim, hidden, dim)

    def project(self, features: Float[Tensor, "b n d"]) -> Projected:
        centred = _centred(features + self.position.bias)
        return Projected(centred @ self._inner().T, centred.square().sum(-1), centred @ _centred(self._columns()).T)

    def hidden(self, projected: Projected, relative: Float[Tensor, "b k n 2"]) -> Hidden:
        columns = _centred(self._columns())
        squares = ((relative @ (columns @ columns.T) + 2 * projected.along.unsqueeze(1)) * relative).sum(-1)
        variance = (projected.square.unsqueeze(1) + squares).clamp(min=0) / columns.shape[1]
        deviation = (variance + EPS).sqrt()
        shift = F.linear(self.norm.bias, self.mlp.inner.weight, self.mlp.inner.bias)
        maps = torch.cat((columns @ self._inner().T, shift.unsqueeze(0)))
        features = torch.cat((relative, deviation.unsqueeze(-1)), -1) @ maps
        return Hidden(F.relu_(features.add_(projected.inner.unsqueeze(1))), deviation)

    def _columns(self) -> Float[Tensor, "2 d"]:
        return self.position.weight.T

    def _inner(self) -> Float[Tensor, "h d"]:
        return self.mlp.inner.weight * self.norm.weight


class InvariantAttention(nn.Module):
    """One round: slots compete for positions by keys of their own, and take up values of their own."""

    def __init__(self, inputs: int, dim: int, hidden: int) -> None:
        super().__init__()
        self.norm_inputs = nn.LayerNorm(inputs, eps=EPS)
        self.norm_slots = nn.LayerNorm(dim, eps=EPS)
        self.query = linear(dim, dim, bias=False)
        self.key = linear(inputs, dim, bias=False)
        self.value = linear(inputs, dim, bias=False)
        self.encoder = RelativeEncoder(dim, hidden)

    def project(self, features: Float[Tensor, "b n c"]) -> tuple[Projected, Projected]:
        """Keys and values, before they are relative to any slot."""
        inputs = self.norm_inputs(features)
        return self.encoder.project(self.key(inputs)), self.encoder.project(self.value(inputs))

    def attention(
        self, slots: Float[Tensor, "b k d"], keys: Projected, relative: Float[Tensor, "b k n 2"]
    ) -> Float[Tensor, "b k n"]:
        """Softmax over slots."""
        outer = self.encoder.mlp.outer
        queries = self.query(self.norm_slots(slots)) * slots.shape[-1] ** -0.5
        hidden = self.encoder.hidden(keys, relative)
        products = (hidden.features @ (queries @ outer.weight).unsqueeze(-1)).squeeze(-1)
        logits: Tensor = products / hidden.factor + (queries @ outer.bias).unsqueeze(-1)
        return logits.softmax(1)

    def updates(
        self, weights: Float[Tensor, "b k n"], values: Projected, relative: Float[Tensor, "b k n 2"]
    ) -> Float[Tensor, "b k d"]:
        """Values, summed by weight over positions."""
        outer = self.encoder.mlp.outer
        hidden = self.encoder.hidden(values, relative)
        means = ((weights / hidden.factor).unsqueeze(2) @ hidden.features).squeeze(2)
        return means @ outer.weight.T + weights.sum(-1, keepdim=True) * outer.bias


def position_weights(attention: Float[Tensor, "b k n"]) -> Float[Tensor, "b k n"]:
    """Attention as weights of a mean over positions."""
    return attention / (attention.sum(-1, keepdim=True) + 1e-8)


def _centred(x: Float[Tensor, "*nodes d"]) -> Float[Tensor, "*nodes d"]:
    return x - x.mean(-1, keepdim=True)


class RelativeDecoder(SlotDecoder):
    """A slot on a grid plus each cell's position in the slot's coordinates; convolutions; a linear head."""

    canvas: Tensor

    def __init__(self, config: InvSaConfig) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("canvas", cells(*config.broadcast), persistent=False)
        self.position = linear(2, config.dim)
        channels, kernel = config.decoder_channels, config.decoder_kernel
        widths = [config.dim] + [channels] * (len(config.decoder_strides) - 1)
        self.layers = nn.ModuleList(
            decoder_layer(width, ConvConfig(channels, kernel, stride))
            for width, stride in zip(widths, config.decoder_strides, strict=True)
        )
        self.head = conv(channels, 4, kernel=1)

    def forward(self, encoding: Encoding, images: Float[Tensor, "b 3 h w"]) -> Decoded:
        """Colours are in [0, 1] as they leave the head."""
        slots, positions, scales = encoding.slots.split((self.config.dim, 2, 2), -1)
        relative = in_frames(self.canvas, Frames(positions, scales), self.config.scale_unit)
        x = self.position.weight @ relative.mT + (slots + self.position.bias).unsqueeze(-1)
        x = x.flatten(0, 1).unflatten(-1, self.config.broadcast)
        for layer in self.layers:
            x = F.relu_(layer(x))
        decoded = self.head(x).unflatten(0, slots.shape[:2]).float()
        slot_images, masks = decoded[:, :, :3], decoded[:, :, 3].softmax(1)
        return Decoded(slot_images, masks, (slot_images * masks.unsqueeze(2)).sum(1))


class InvSa(AttentionModel):
    """A slot is learned features and a frame, position and scale, that is drawn at first and then found."""

    config: InvSaConfig
    grid: Tensor
    evaluation_frames: Tensor

    def __init__(self, config: InvSaConfig) -> None:
        super().__init__(config)
        self.encoder = ConvEncoder(config.channels, config.encoder_strides, rectify_last=False)
        self.attention = InvariantAttention(config.channels, config.dim, config.hidden)
        self.update = SlotUpdate(config.dim, config.hidden, EPS)
        self.decoder = RelativeDecoder(config)
        self.apply(initialise)
        self.features = nn.Parameter(torch.randn(config.slots, config.dim))
        self.register_buffer("grid", cells(*config.grid), persistent=False)
        frames = _draw(config.slots, generator=torch.Generator().manual_seed(EVALUATION_SEED))
        self.register_buffer("evaluation_frames", frames, persistent=False)

    def attend(self, images: Float[Tensor, "b 3 h w"]) -> Attended:
        """Slots, each its features, position and scale, and the attention of the last round."""
        features = rearrange(self.encoder(images), "b c h w -> b (h w) c")
        with full_precision(features):
            slots = self.features.expand(len(images), -1, -1)
            return self.rounds(features.float(), slots, self.first_frames(len(images)))

    def rounds(self, features: Float[Tensor, "b n c"], slots: Float[Tensor, "b k d"], frames: Frames) -> Attended:
        """All iterations, and one more round that only finds the frames of the final slots."""
        keys, values = self.attention.project(features)
        for left in reversed(range(self.config.iterations + 1)):
            relative = in_frames(self.grid, frames, self.config.scale_unit)
            attention = self.attention.attention(slots, keys, relative)
            weights = position_weights(attention)
            frames = find_frames(weights, self.grid)
            if left:
                slots = self.update(slots, self.attention.updates(weights, values, relative))
        return Attended(torch.cat((slots, *frames), -1), attention)

    def first_frames(self, batch: int) -> Frames:
        """Frames drawn anew for each slot and image in training; always the same ones in evaluation."""
        frames = self.evaluation_frames.expand(batch, -1, -1)
        if self.training:
            frames = _draw(batch, self.config.slots, device=frames.device)
        return Frames(frames[..., :2], frames[..., 2:])

    def paper_masks(self, attention: Float[Tensor, "b k n"]) -> Float[Tensor, "b k h w"]:
        return self.over_image(position_weights(attention))

    def loss(self, output: Output, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, ""]:
        """Squared error in [0, 1], summed over an image; the clipping of its gradient is tuned to that."""
        return (output.reconstruction - images).square().sum((1, 2, 3)).mean()


def _draw(
    *shape: int, device: torch.device | None = None, generator: torch.Generator | None = None
) -> Float[Tensor, "*shape 4"]:
    """Positions from U(-1, 1), scales from N(0.1, 0.1) within their bounds."""
    positions = 2 * torch.rand(*shape, 2, device=device, generator=generator) - 1
    scales = 0.1 + 0.1 * torch.randn(*shape, 2, device=device, generator=generator)
    return torch.cat((positions, scales.clamp(*SCALES)), -1)


def initialise(module: nn.Module) -> None:
    """Flax's initial values: weights by LeCun's rule, recurrent ones orthogonal gate by gate, and no biases."""
    if isinstance(module, nn.Linear | nn.Conv2d):
        lecun_normal(module.weight, module.weight[0].numel())
    elif isinstance(module, nn.ConvTranspose2d):
        lecun_normal(module.weight, module.weight[:, 0].numel())
    elif isinstance(module, nn.GRUCell):
        lecun_normal(module.weight_ih, module.input_size)
        for gate in module.weight_hh.detach().chunk(3):
            nn.init.orthogonal_(gate)
        nn.init.zeros_(module.bias_ih)
        nn.init.zeros_(module.bias_hh)


def lecun_normal(weight: Tensor, inputs: int) -> None:
    """Fill with a normal of variance 1 / inputs that is cut off at two deviations."""
    deviation = 1 / (math.sqrt(inputs) * SHRINKAGE)
    nn.init.trunc_normal_(weight, std=deviation, a=-2 * deviation, b=2 * deviation)


MODEL = InvSa
