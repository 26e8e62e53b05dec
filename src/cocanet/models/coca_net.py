"""COCA-Net, as in Figure 2: backbone, hierarchy of COCA layers, dendrogram, slots, decoder."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from cocanet.config import CocaNetConfig
from cocanet.config.slots import SlotLimits, slot_limits
from cocanet.functional.hierarchy import merge_masks
from cocanet.functional.resizing import enlarge
from cocanet.layers.precision import full_precision
from cocanet.models.backbone import Backbone
from cocanet.models.decoder import SlotDecoder
from cocanet.models.feature_backbone import FeatureBackbone
from cocanet.models.hierarchy import Hierarchy
from cocanet.models.model import ObjectModel, check_size
from cocanet.models.output import Encoding, Level, Output


class CocaNet(ObjectModel):
    """Discovers objects in images of one size, and reconstructs the images from them.

    `limits` may differ from the configuration at any call: no weight depends on the number of slots.
    """

    def __init__(
        self,
        config: CocaNetConfig,
        backbone: Backbone | FeatureBackbone,
        hierarchy: Hierarchy,
        decoder: SlotDecoder,
    ) -> None:
        super().__init__()
        self.config = config
        self.backbone, self.hierarchy, self.decoder = backbone, hierarchy, decoder

    def forward(self, images: Float[Tensor, "b 3 h w"], limits: SlotLimits | None = None) -> Output:
        encoding = self.encode(images, limits)
        return Output.of(encoding, self.decoder(encoding, images))

    def encode(self, images: Float[Tensor, "b 3 h w"], limits: SlotLimits | None = None) -> Encoding:
        """Slots and their masks, without decoding."""
        check_size(images, self.config.image_size)
        pixels = self.backbone(images)
        slots, in_use, levels = self.hierarchy(pixels, limits or slot_limits(self.config, training=self.training))
        return Encoding(slots, self.dendrogram(levels), in_use, levels)

    def dendrogram(self, levels: tuple[Level, ...]) -> Float[Tensor, "b k h w"]:
        """Encoder masks: the product of the masks of all levels (Eq. 13)."""
        masks, windows = [level.clusters.masks for level in levels], [level.window for level in levels]
        with full_precision(masks[0]):
            return enlarge(merge_masks(masks, windows, self.config.grid).squeeze(1), self.config.image_size)


def as_coca_net(model: ObjectModel, purpose: str) -> CocaNet:
    """The model, if it is a COCA-Net; other models have no hierarchy."""
    if not isinstance(model, CocaNet):
        raise ValueError(f"{purpose} needs a COCA-Net; this model is a {type(model).__name__}")
    return model
