"""What at least two baselines share: encoders, the slots' update, and the model around iterative attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from cocanet.config import ConvConfig, DecoderConfig
from cocanet.config.baselines import AttentionConfig
from cocanet.functional.resizing import enlarge
from cocanet.layers.linear import ReluMLP, conv, linear
from cocanet.layers.position import PositionEmbedding
from cocanet.models.decoder import BroadcastDecoder, SlotDecoder
from cocanet.models.feature_backbone import FeatureBackbone
from cocanet.models.feature_decoder import FeatureDecoder
from cocanet.models.model import ObjectModel, check_size
from cocanet.models.output import Encoding, Output
from cocanet.models.pretrained import PretrainedFeatures

EVALUATION_SEED = 0
"""Seed of the draws that evaluation uses: the same for every image, so that no score depends on the batch."""
KERNEL = 5


class Attended(NamedTuple):
    """Slots, and the softmax over slots that led to them."""

    slots: Float[Tensor, "b k d"]
    attention: Float[Tensor, "b k n"]


class ConvEncoder(nn.Module):
    """5×5 convolutions with a ReLU after each; none after the last unless `rectify_last`."""

    def __init__(self, channels: int, strides: tuple[int, ...], rectify_last: bool = True) -> None:
        super().__init__()
        self.rectify_last = rectify_last
        widths = [3] + [channels] * (len(strides) - 1)
        self.layers = nn.ModuleList(
            conv(width, channels, KERNEL, padding=KERNEL // 2, stride=stride)
            for width, stride in zip(widths, strides, strict=True)
        )

    def forward(self, images: Float[Tensor, "b 3 height width"]) -> Float[Tensor, "b c h w"]:
        x = self.layers[0](images)
        for layer in self.layers[1:]:
            x = layer(F.relu_(x))
        return F.relu_(x) if self.rectify_last else x


class PixelEncoder(nn.Module):
    """Convolutions, to which a position embedding is added; then each position alone is normalised and put through an
    MLP."""

    def __init__(self, config: AttentionConfig, hidden: int, outputs: int, eps: float) -> None:
        super().__init__()
        self.conv = ConvEncoder(config.channels, config.encoder_strides)
        self.position = PositionEmbedding(*config.grid, config.channels)
        self.norm = nn.LayerNorm(config.channels, eps=eps)
        self.mlp = ReluMLP(config.channels, hidden, outputs)

    def forward(self, images: Float[Tensor, "b 3 height width"]) -> Float[Tensor, "b n d"]:
        features = rearrange(self.conv(images), "b c h w -> b (h w) c")
        out: Tensor = self.mlp(self.norm(features + self.position().flatten(0, 1)))
        return out


class FeatureEncoder(FeatureBackbone):
    """Pretrained features and position of each cell, as COCA-Net takes them."""

    def forward(self, images: Float[Tensor, "b 3 height width"]) -> Float[Tensor, "b n d"]:
        return super().forward(images).flatten(1, 2)


def feature_parts(config: AttentionConfig, outputs: int) -> tuple[FeatureEncoder, FeatureDecoder] | None:
    """Encoder and decoder of a model of pretrained features; None for a model of pixels."""
    if config.backbone is None or config.decoder is None:
        return None
    pretrained = PretrainedFeatures(config.backbone)
    return FeatureEncoder(pretrained, outputs), FeatureDecoder(
        config.decoder, pretrained, config.image_size, config.dim
    )


class SlotUpdate(nn.Module):
    """A GRU whose hidden state is the slot, then a residual MLP, which training skips for a `drop_path` of images."""

    def __init__(self, dim: int, hidden: int, eps: float, drop_path: float = 0.0) -> None:
        super().__init__()
        self.gru = nn.GRUCell(dim, dim)
        self.norm = nn.LayerNorm(dim, eps=eps)
        self.mlp = ReluMLP(dim, hidden, dim)
        self.drop_path = drop_path
        nn.init.xavier_uniform_(self.gru.weight_ih)
        nn.init.orthogonal_(self.gru.weight_hh)
        nn.init.zeros_(self.gru.bias_ih)
        nn.init.zeros_(self.gru.bias_hh)

    def forward(self, slots: Float[Tensor, "b k d"], updates: Float[Tensor, "b k d"]) -> Float[Tensor, "b k d"]:
        carried = self.gru(updates.flatten(0, 1), slots.flatten(0, 1)).unflatten(0, slots.shape[:2])
        step = self.mlp(self.norm(carried))
        if self.training and self.drop_path:
            step = drop_path(step, self.drop_path)
        out: Tensor = carried + step
        return out


def drop_path(x: Float[Tensor, "b k d"], chance: float) -> Float[Tensor, "b k d"]:
    """Set whole images to zero by chance, and enlarge the others so that the mean stays (stochastic depth)."""
    kept = torch.empty(len(x), 1, 1, dtype=x.dtype, device=x.device).bernoulli_(1 - chance)
    return x * (kept / (1 - chance))


class SlotIteration(nn.Module):
    """One round of Slot Attention: slots compete for positions, then each takes up the mean of what it won.

    Keys and values are linear in the inputs, so their maps go to the few slots instead of the many positions:
    q · (W_k x) = (W_kᵀ q) · x and Σ a (W_v x) = W_v (Σ a x). Neither is ever laid out.
    """

    def __init__(
        self, inputs: int, dim: int, update: SlotUpdate, weigh: Callable[[Tensor], Tensor], eps: float
    ) -> None:
        """`weigh` turns attention into the weights by which a slot sums what it attended to."""
        super().__init__()
        self.norm = nn.LayerNorm(dim, eps=eps)
        self.query = linear(dim, dim, bias=False)
        self.key = linear(inputs, dim, bias=False)
        self.value = linear(inputs, dim, bias=False)
        self.update = update
        self.weigh = weigh

    def forward(self, inputs: Float[Tensor, "b n c"], slots: Float[Tensor, "b k d"]) -> Attended:
        queries = self.query(self.norm(slots)) @ self.key.weight * slots.shape[-1] ** -0.5
        attention = (queries @ inputs.mT).softmax(1)
        updates = self.value(self.weigh(attention) @ inputs)
        return Attended(self.update(slots, updates), attention)


class AttentionModel(ObjectModel):
    """Slots from iterative attention over features of the image, and a decoder."""

    decoder: SlotDecoder
    encoder: nn.Module

    def __init__(self, config: AttentionConfig) -> None:
        super().__init__()
        self.config = config

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> Output:
        check_size(images, self.config.image_size)
        slots, attention = self.attend(images)
        in_use = torch.ones(slots.shape[:2], dtype=torch.bool, device=slots.device)
        encoding = Encoding(slots, self.encoder_masks(attention), in_use)
        return Output.of(encoding, self.decoder(encoding, images))

    def attend(self, images: Float[Tensor, "b 3 h w"]) -> Attended:
        """Slots, and the softmax over slots of the last iteration."""
        raise NotImplementedError

    def encoder_masks(self, attention: Float[Tensor, "b k n"]) -> Float[Tensor, "b k h w"]:
        """The encoder's segmentation: attention over the grid of features as masks over the image."""
        if self.config.encoder_masks == "paper":
            return self.paper_masks(attention)
        masks = self.over_image(attention)
        return masks / masks.sum(1, keepdim=True)

    def paper_masks(self, attention: Float[Tensor, "b k n"]) -> Float[Tensor, "b k h w"]:
        """The masks that the COCA paper's tables evaluate for this model; they need not sum to 1."""
        return stretch(self.over_image(attention))

    def over_image(self, maps: Float[Tensor, "b k n"]) -> Float[Tensor, "b k h w"]:
        """Maps over the grid of features as maps over the image."""
        return enlarge(maps.unflatten(-1, self.config.grid), self.config.image_size)


def broadcast_decoder(config: AttentionConfig) -> BroadcastDecoder:
    """The decoder of Slot Attention and BO-QSA: 5×5 convolutions, and a 3×3 one for colours and mask."""
    hidden = tuple(ConvConfig(config.channels, KERNEL, stride) for stride in config.decoder_strides)
    return BroadcastDecoder(DecoderConfig(config.broadcast, (*hidden, ConvConfig(channels=4, kernel=3))), config.dim)


def stretch(masks: Float[Tensor, "b k h w"]) -> Float[Tensor, "b k h w"]:
    """Stretch each mask by itself to [0, 1]; one that is the same everywhere becomes 0.

    The paper stretches attention that was normalised over positions. That normalisation is a factor and a summand for
    each slot, which stretching undoes, so stretching attention itself gives the same masks.
    """
    low, high = masks.amin((2, 3), keepdim=True), masks.amax((2, 3), keepdim=True)
    width = high - low
    return (masks - low) / width.where(width > 0, 1)


def coordinates(height: int, width: int) -> Float[Tensor, "2 {height} {width}"]:
    """Row and column of each cell of a grid, from -1 to 1."""
    return torch.stack(torch.meshgrid(torch.linspace(-1, 1, height), torch.linspace(-1, 1, width), indexing="ij"))
