"""COCA-Net, as in Figure 2: backbone → hierarchy of COCA layers → spatial broadcast decoder."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from cocanet.config import CocaNetConfig
from cocanet.functional.hierarchy import merge_masks
from cocanet.layers.position import ShapeEmbedding
from cocanet.layers.precision import full_precision
from cocanet.models.backbone import Backbone
from cocanet.models.decoder import BroadcastDecoder
from cocanet.models.hierarchy import Hierarchy, local_centres
from cocanet.models.model import ObjectModel
from cocanet.models.output import Level, Output


class CocaNet(ObjectModel):
    """Finds objects in images of one size, and paints the images from them."""

    def __init__(
        self,
        config: CocaNetConfig,
        backbone: Backbone,
        hierarchy: Hierarchy,
        decoder: BroadcastDecoder,
        shape: ShapeEmbedding | None = None,
    ) -> None:
        super().__init__()
        self.config = config
        self.backbone, self.hierarchy, self.decoder, self.shape = backbone, hierarchy, decoder, shape

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> Output:
        slots, levels = self._cluster(images)
        in_use = levels[-1].clusters.in_use.squeeze(1)
        masks = self.dendrogram(levels)
        slots, centres = self._centred(slots, levels, masks)
        painting = self.decoder(slots, in_use, centres)
        return Output(
            slots=slots,
            slot_images=painting.slot_images,
            decoder_masks=painting.masks,
            encoder_masks=masks,
            in_use=in_use,
            mixture=painting.mixture,
            levels=levels,
        )

    def encode(self, images: Float[Tensor, "b 3 h w"]) -> tuple[Float[Tensor, "b k d"], tuple[Level, ...]]:
        """Slots and the hierarchy they come from, without decoding."""
        slots, levels = self._cluster(images)
        if self.shape is not None:
            slots, _ = self._centred(slots, levels, self.dendrogram(levels))
        return slots, levels

    def _cluster(self, images: Float[Tensor, "b 3 h w"]) -> tuple[Float[Tensor, "b k d"], tuple[Level, ...]]:
        if images.shape[-2:] != self.config.image_size:
            (height, width), (rows, columns) = images.shape[-2:], self.config.image_size
            raise ValueError(f"this model takes images of {rows}×{columns} pixels; got {height}×{width}")
        gamma = self.config.backbone.gamma
        slots, levels = self.hierarchy(self.backbone(2 * (images if gamma == 1 else images**gamma) - 1))
        return slots, levels

    def _centred(
        self, slots: Float[Tensor, "b k d"], levels: tuple[Level, ...], masks: Float[Tensor, "b k h w"]
    ) -> tuple[Float[Tensor, "b k d"], Int[Tensor, "b k 2"] | None]:
        """In their own frame, slots also know their shape, and have a centre: a cell of the decoder's grid."""
        if self.shape is None:
            return slots, None
        centres = local_centres(levels, masks.detach())
        size, grid = self.config.image_size, self.config.decoder.broadcast
        cells = [x * count // side for x, count, side in zip(centres.unbind(-1), grid, size, strict=True)]
        return slots + self.shape(masks, centres), torch.stack(cells, -1)

    def dendrogram(self, levels: tuple[Level, ...]) -> Float[Tensor, "b k h w"]:
        """The slots' masks over the pixels: the encoder's segmentation."""
        masks, windows = [level.clusters.masks for level in levels], [level.window for level in levels]
        with full_precision(masks[0]):
            return merge_masks(masks, windows, self.config.image_size).squeeze(1)


def as_coca_net(model: ObjectModel, purpose: str) -> CocaNet:
    """The model, if it is a COCA-Net: others have no hierarchy to look into."""
    if not isinstance(model, CocaNet):
        raise ValueError(f"{purpose} needs a COCA-Net; this model is a {type(model).__name__}")
    return model
