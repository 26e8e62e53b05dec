"""COCA-Net, as in Figure 2: backbone → hierarchy of COCA layers → spatial broadcast decoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from cocanet.config import CocaNetConfig, FeedbackConfig
from cocanet.functional.feedback import correct_masks, project_on_nodes
from cocanet.functional.hierarchy import merge_masks
from cocanet.layers.position import ShapeEmbedding
from cocanet.layers.precision import full_precision
from cocanet.models.backbone import Backbone
from cocanet.models.decoder import BroadcastDecoder
from cocanet.models.hierarchy import Climbed, Hierarchy, local_centres
from cocanet.models.model import ObjectModel
from cocanet.models.output import Level, Output


class Encoding(NamedTuple):
    """What the encoder finds in a batch of images."""

    slots: Float[Tensor, "b k d"]
    masks: Float[Tensor, "b k h w"]
    masks_from_below: Float[Tensor, "b k h w"]
    """Those of the dendrogram, before feedback; the same where there is none."""
    in_use: Bool[Tensor, "b k"]
    cells: Int[Tensor, "b k 2"] | None
    """The decoder's cell that each slot is centred on, where slots have a frame of their own."""
    levels: tuple[Level, ...]


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

    def forward(
        self, images: Float[Tensor, "b 3 h w"], feedback: FeedbackConfig | None = None, *, apart: bool = False
    ) -> Output:
        found = self.encode(images, feedback, apart=apart)
        painting = self.decoder(found.slots, found.in_use, found.cells, found.masks)
        return Output(
            slots=found.slots,
            slot_images=painting.slot_images,
            decoder_masks=painting.masks,
            encoder_masks=found.masks,
            in_use=found.in_use,
            mixture=painting.mixture,
            masks_from_below=found.masks_from_below,
            levels=found.levels,
        )

    def encode(
        self, images: Float[Tensor, "b 3 h w"], feedback: FeedbackConfig | None = None, *, apart: bool = False
    ) -> Encoding:
        """Slots and their masks, without decoding: up the hierarchy, and with feedback, if any, down again.

        `feedback` is the configuration's unless another is given. With `apart` the gradient of slots and masks ends
        at the last level's nodes: what is done with slots then teaches their pooling, and not what was found.
        """
        feedback = feedback or self.config.feedback
        climbed = self._climb(images)
        from_below = masks = self.dendrogram(climbed.levels)
        in_use = climbed.levels[-1].clusters.in_use.squeeze(1)
        features, over_nodes = climbed.features, None
        if apart:
            climbed, masks = climbed.detached(), masks.detach()
        if feedback.rounds:
            masks = _corrected(masks, images, in_use, feedback)
            over_nodes = self._over_nodes(masks, climbed.levels)
            features = self.hierarchy.pool_again(climbed, over_nodes)
        elif apart:
            features = self.hierarchy.pool_again(climbed, climbed.levels[-1].clusters.masks.squeeze(1))
        regrouped = over_nodes if feedback.regroup else None
        slots, cells = self._centred(self.hierarchy.slots(features), climbed.levels, masks, regrouped)
        return Encoding(slots, masks, from_below, in_use, cells, climbed.levels)

    def masks_from_below(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b k h w"]:
        """The encoder's masks before any feedback: all that an encoder needs to learn alone."""
        return self.dendrogram(self._climb(images).levels)

    def _climb(self, images: Float[Tensor, "b 3 h w"]) -> Climbed:
        if images.shape[-2:] != self.config.image_size:
            (height, width), (rows, columns) = images.shape[-2:], self.config.image_size
            raise ValueError(f"this model takes images of {rows}×{columns} pixels; got {height}×{width}")
        gamma = self.config.backbone.gamma
        climbed: Climbed = self.hierarchy(self.backbone(2 * (images if gamma == 1 else images**gamma) - 1))
        return climbed

    def _over_nodes(self, masks: Float[Tensor, "b k h w"], levels: tuple[Level, ...]) -> Float[Tensor, "b k n"]:
        *below, _ = levels
        if not below:
            return masks.flatten(2)
        with full_precision(masks):
            return project_on_nodes(masks, self._merged(below))

    def _centred(
        self,
        slots: Float[Tensor, "b k d"],
        levels: tuple[Level, ...],
        masks: Float[Tensor, "b k h w"],
        over_nodes: Float[Tensor, "b k n"] | None,
    ) -> tuple[Float[Tensor, "b k d"], Int[Tensor, "b k 2"] | None]:
        """In their own frame, slots also know their shape, and have a centre: a cell of the decoder's grid."""
        if self.shape is None:
            return slots, None
        centres = local_centres(levels, masks.detach(), over_nodes)
        size, grid = self.config.image_size, self.config.decoder.broadcast
        cells = [x * count // side for x, count, side in zip(centres.unbind(-1), grid, size, strict=True)]
        return slots + self.shape(masks, centres), torch.stack(cells, -1)

    def dendrogram(self, levels: tuple[Level, ...]) -> Float[Tensor, "b k h w"]:
        """The slots' masks over the pixels: the encoder's segmentation."""
        with full_precision(levels[0].clusters.masks):
            return self._merged(levels).squeeze(1)

    def _merged(self, levels: Sequence[Level]) -> Float[Tensor, "b w k height width"]:
        """Masks of the last of these levels' clusters over the pixels of its windows."""
        masks, windows = [level.clusters.masks for level in levels], [level.window for level in levels]
        return merge_masks(masks, windows, self.config.image_size)


def _corrected(
    masks: Float[Tensor, "b k h w"],
    images: Float[Tensor, "b 3 h w"],
    in_use: Bool[Tensor, "b k"],
    feedback: FeedbackConfig,
) -> Float[Tensor, "b k h w"]:
    """Masks after feedback; gradients pass as if nothing had been corrected."""
    with full_precision(images), torch.no_grad():
        corrected = correct_masks(masks, images.float(), in_use, **asdict(feedback))
    return masks + (corrected - masks).detach() if masks.requires_grad else corrected


def as_coca_net(model: ObjectModel, purpose: str) -> CocaNet:
    """The model, if it is a COCA-Net: others have no hierarchy to look into."""
    if not isinstance(model, CocaNet):
        raise ValueError(f"{purpose} needs a COCA-Net; this model is a {type(model).__name__}")
    return model
