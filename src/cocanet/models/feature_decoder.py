"""Feature decoder: an MLP predicts the frozen features of each cell from each slot, mixed by a softmax over the slots.

DINOSAUR (Seitzer et al., 2023) trains slots so. Nothing here makes pixels: an image of a slot is its mean colour.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from einops import einsum, rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn

from cocanet.config.features import FeatureDecoderConfig
from cocanet.functional.geometry import EMPTY
from cocanet.functional.resizing import enlarge
from cocanet.layers.linear import linear
from cocanet.layers.position import PositionEmbedding
from cocanet.layers.precision import at_least_float32
from cocanet.models.decoder import SlotDecoder
from cocanet.models.output import Decoded, Encoding
from cocanet.models.pretrained import PretrainedFeatures


class FeatureDecoder(SlotDecoder):
    """Slots to features and masks on the grid; in training only some of its cells."""

    def __init__(
        self, config: FeatureDecoderConfig, pretrained: PretrainedFeatures, image_size: tuple[int, int], dim: int
    ) -> None:
        super().__init__()
        self.pretrained, self.image_size, self.cells = pretrained, image_size, config.cells
        hidden, grid = config.hidden, pretrained.config.grid
        self.position = PositionEmbedding(*grid, hidden, octaves=config.octaves)
        self.slot = linear(dim, hidden)
        self.layers = nn.ModuleList(linear(hidden, hidden) for _ in range(config.layers))
        self.mask = linear(hidden, 1)
        self.out = linear(hidden, pretrained.channels)

    def forward(self, encoding: Encoding, images: Float[Tensor, "b 3 height width"]) -> Decoded:
        """In training the loss of some cells, and the encoder's masks in place of the decoder's."""
        if self.training:
            masks, loss = encoding.masks, self.loss(encoding, images)
        else:
            cells, _ = self.mix(encoding)
            masks, loss = enlarge(cells.unflatten(-1, self.pretrained.config.grid), self.image_size), None
        colours = mean_colours(images, masks)
        slot_images = colours[..., None, None].expand(-1, -1, -1, *self.image_size)
        return Decoded(slot_images, masks, einsum(colours, masks, "b k c, b k h w -> b c h w"), loss)

    def loss(self, encoding: Encoding, images: Float[Tensor, "b 3 height width"]) -> Float[Tensor, ""]:
        """Squared error of the features of cells drawn at random: an unbiased estimate of that of all cells."""
        target = self.pretrained(images).flatten(1, 2)
        count = max(1, round(self.cells * target.shape[1]))
        cells = torch.randperm(target.shape[1], device=images.device)[:count] if self.cells < 1 else None
        _, hidden = self.mix(encoding, cells)
        features = at_least_float32(self.out(hidden))
        return F.mse_loss(features, target if cells is None else target[:, cells])

    def mix(
        self, encoding: Encoding, cells: Int[Tensor, " n"] | None = None
    ) -> tuple[Float[Tensor, "b k n"], Float[Tensor, "b n h"]]:
        """The masks of cells, and their hidden features: a linear map is the same before and after the mixture."""
        position = self.position().flatten(0, 1)
        x = self.slot(encoding.slots).unsqueeze(2) + (position if cells is None else position[cells])
        for layer in self.layers:
            x = layer(F.gelu(x))
        x = F.gelu(x)
        logits = at_least_float32(self.mask(x).squeeze(-1))
        masks = logits.masked_fill(~encoding.in_use.unsqueeze(-1), -torch.inf).softmax(1)
        return masks, (x * masks.unsqueeze(-1)).sum(1)


def mean_colours(
    images: Float[Tensor, "b 3 height width"], masks: Float[Tensor, "b k height width"]
) -> Float[Tensor, "b k 3"]:
    """The mean colour under each mask."""
    pixels, weights = rearrange(images, "b c h w -> b (h w) c"), rearrange(masks, "b k h w -> b k (h w)")
    return weights @ pixels.to(weights.dtype) / weights.sum(-1, keepdim=True).clamp(min=EMPTY)
