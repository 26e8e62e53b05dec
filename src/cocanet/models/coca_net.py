"""COCA-Net, as in Figure 2: backbone → hierarchy of COCA layers → decoder, of pictures or of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from cocanet.config import CocaNetConfig, FeedbackConfig
from cocanet.config.slots import SlotLimits, slot_limits
from cocanet.functional.feedback import correct_masks, project_on_nodes
from cocanet.functional.hierarchy import merge_masks
from cocanet.functional.ownership import up_to_last_owner
from cocanet.functional.resizing import enlarge, shrink
from cocanet.layers.precision import full_precision
from cocanet.models.backbone import Backbone
from cocanet.models.decoder import BroadcastDecoder, Painting
from cocanet.models.hierarchy import Climbed, Hierarchy
from cocanet.models.model import ObjectModel, check_size
from cocanet.models.output import Level, Output
from cocanet.models.slot_frame import SlotFrame
from cocanet.models.tokens import TokenDecoder


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
    """Finds objects in images of one size, and paints the images from them.

    At a call, `feedback` and `limits` may be others than those of the configuration: no weight depends on them.
    """

    def __init__(
        self,
        config: CocaNetConfig,
        backbone: Backbone,
        hierarchy: Hierarchy,
        decoder: BroadcastDecoder | TokenDecoder,
        shape: SlotFrame | None = None,
    ) -> None:
        super().__init__()
        self.config = config
        self.backbone, self.hierarchy, self.decoder, self.shape = backbone, hierarchy, decoder, shape

    def forward(
        self,
        images: Float[Tensor, "b 3 h w"],
        feedback: FeedbackConfig | None = None,
        limits: SlotLimits | None = None,
        *,
        apart: bool = False,
        resting: bool = False,
    ) -> Output:
        found = self.encode(images, feedback, limits, apart=apart, resting=resting)
        painting = self.paint(found, images)
        return Output(
            slots=found.slots,
            slot_images=painting.slot_images,
            decoder_masks=painting.masks,
            encoder_masks=found.masks,
            in_use=found.in_use,
            mixture=painting.mixture,
            masks_from_below=found.masks_from_below,
            levels=found.levels,
            decoder_loss=painting.loss,
        )

    def paint(self, found: Encoding, images: Float[Tensor, "b 3 h w"]) -> Painting:
        """Pictures of the slots; a decoder by tokens needs the images, for it tells a token after the true ones."""
        out: Painting = (
            self.decoder(found.slots, found.in_use, images)
            if isinstance(self.decoder, TokenDecoder)
            else self.decoder(found.slots, found.in_use, found.cells, found.masks)
        )
        return out

    def encode(
        self,
        images: Float[Tensor, "b 3 h w"],
        feedback: FeedbackConfig | None = None,
        limits: SlotLimits | None = None,
        *,
        apart: bool = False,
        resting: bool = False,
    ) -> Encoding:
        """Slots and their masks, without decoding: up the hierarchy, and with feedback, if any, down again.

        With `apart` the gradient of slots and masks ends at the last level's nodes: what is done with slots then
        teaches their pooling, and not what was found. With `resting` nothing else teaches that either: it is found
        as at evaluation, and no gradient is prepared.
        """
        feedback = feedback or self.config.feedback
        limits = limits or slot_limits(self.config, training=self.training, settled=resting)
        with torch.set_grad_enabled(torch.is_grad_enabled() and not resting):
            climbed = self._climb(images, limits)
        from_below = self.dendrogram(climbed.levels)
        top = climbed.detached() if apart else climbed
        masks, features, over_nodes = from_below.detach() if apart else from_below, climbed.features, None
        in_use = top.in_use
        if feedback.rounds:
            masks, in_use = _corrected(masks, images, in_use, feedback, limits)
            over_nodes = self._over_nodes(masks, top.levels)
        if feedback.rounds or apart:
            features = self.hierarchy.pool_again(top, top.masks if over_nodes is None else over_nodes)
        slots, cells = self.hierarchy.slots(features), None
        if self.shape is not None:
            slots, cells = self.shape.place(slots, masks, top.levels, over_nodes if feedback.reassigns else None)
        return Encoding(slots, masks, from_below, in_use, cells, top.levels)

    def anneal(self, done: float) -> None:
        if isinstance(self.decoder, TokenDecoder):
            self.decoder.anneal(done)

    def masks_from_below(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b k h w"]:
        """The encoder's masks before any feedback: all that an encoder needs to learn alone."""
        return self.dendrogram(self._climb(images, slot_limits(self.config, training=self.training)).levels)

    def _climb(self, images: Float[Tensor, "b 3 h w"], limits: SlotLimits) -> Climbed:
        check_size(images, self.config.image_size)
        climbed: Climbed = self.hierarchy(self.backbone(images), limits)
        return climbed

    def _over_nodes(self, masks: Float[Tensor, "b k h w"], levels: tuple[Level, ...]) -> Float[Tensor, "b k n"]:
        *below, _ = levels
        cells = shrink(masks, self.config.grid)
        if not below:
            return cells.flatten(2)
        with full_precision(masks):
            return project_on_nodes(cells, self._merged(below))

    def dendrogram(self, levels: tuple[Level, ...]) -> Float[Tensor, "b k h w"]:
        """The slots' masks over the pixels: the encoder's segmentation."""
        with full_precision(levels[0].clusters.masks):
            return enlarge(self._merged(levels).squeeze(1), self.config.image_size)

    def _merged(self, levels: Sequence[Level]) -> Float[Tensor, "b w k height width"]:
        """Masks of the last of these levels' clusters over the first level's cells in its windows."""
        masks, windows = [level.clusters.masks for level in levels], [level.window for level in levels]
        return merge_masks(masks, windows, self.config.grid)


def _corrected(
    masks: Float[Tensor, "b k h w"],
    images: Float[Tensor, "b 3 h w"],
    in_use: Bool[Tensor, "b k"],
    feedback: FeedbackConfig,
    limits: SlotLimits,
) -> tuple[Float[Tensor, "b k h w"], Bool[Tensor, "b k"]]:
    """Masks after feedback, and the slots in use then; gradients pass as if nothing had been corrected.

    Where the scene decides how many slots it has, it also does so in feedback: what is grouped anew or cut off may
    take slots more.
    """
    decided_by_scene = feedback.reassigns and limits.stop_below > 0
    with full_precision(images), torch.no_grad():
        spare = ~in_use if decided_by_scene else None
        corrected = correct_masks(masks, images.float(), in_use, **asdict(feedback), spare=spare)
        if decided_by_scene:
            corrected, in_use = up_to_last_owner(corrected, in_use)
    if masks.requires_grad:
        corrected = masks + (corrected - masks).detach()
    return corrected, in_use


def as_coca_net(model: ObjectModel, purpose: str) -> CocaNet:
    """The model, if it is a COCA-Net: others have no hierarchy to look into."""
    if not isinstance(model, CocaNet):
        raise ValueError(f"{purpose} needs a COCA-Net; this model is a {type(model).__name__}")
    return model
