"""One image through the hierarchy: what every level found of it, in its own pixels, and why."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor

from cocanet.config import FeedbackConfig, Fit
from cocanet.config.slots import SlotLimits
from cocanet.config.windows import Window
from cocanet.explain.choices import Choices, level_choices
from cocanet.explain.compactness import compactness_maps
from cocanet.explain.nodes import window_cells
from cocanet.explain.slots import SlotPictures, origins, scene_of, slot_pictures
from cocanet.models.coca_net import CocaNet, Encoding
from cocanet.models.decoder import Painting
from cocanet.segment.base import found_in
from cocanet.segment.labelling import segmentation
from cocanet.segment.levels import level_masks
from cocanet.segment.placement import Placement, model_view, place
from cocanet.segment.result import Segmentation
from cocanet.segment.settings import SegmentSettings


class Landscape(NamedTuple):
    """Compactness over the model's image: what anchors are chosen by on each level, and of the objects' masks."""

    levels: tuple[Float[np.ndarray, "rows columns"], ...]
    objects: Float[np.ndarray, "height width"]


@dataclass(frozen=True, repr=False, eq=False)
class Explanation:
    """What a COCA-Net found in one image, and why; what costs more is computed when it is asked for."""

    model: CocaNet
    pixels: UInt8[np.ndarray, "h w 3"]
    """The image, upright."""
    view: UInt8[np.ndarray, "height width 3"]
    """The image as the model saw it."""
    placement: Placement
    levels: tuple[Segmentation, ...]
    """What `Segmenter.segment` gives for each level; the last one's are the objects."""
    encoding: Encoding
    limits: SlotLimits

    @property
    def cell(self) -> Window:
        """Pixels of the model's image that are one cell of the first level."""
        (height, width), (rows, columns) = self.view.shape[:2], self.encoding.levels[0].grid
        return height // rows, width // columns

    def window(self, level: int) -> Window:
        """Cells of the first level in a window of a level, from 1."""
        return window_cells(self.encoding.levels, level - 1)

    def choices(self, level: int) -> Choices:
        """What a level, from 1, chose step by step, over the first level's cells."""
        return level_choices(self.encoding.levels, level - 1)

    def anchors(self, level: int) -> Float[np.ndarray, "w a 2"]:
        """Row and column of a level's anchors in the image's own pixels; not a number where none was wanted."""
        return self.to_pixels(self.choices(level).anchors)

    def to_pixels(self, cells: Float[np.ndarray, "*shape 2"]) -> Float[np.ndarray, "*shape 2"]:
        """Rows and columns of cells as those of the image's pixels; whole numbers are middles in both."""
        axes = []
        for axis, side, values in zip(self.placement, self.cell, np.moveaxis(cells, -1, 0), strict=True):
            seen = ((values + 0.5) * side - axis.start) * (axis.seen / axis.span)
            axes.append(axis.first + seen - 0.5)
        return np.stack(axes, -1)

    @cached_property
    def landscape(self) -> Landscape:
        """Compactness of the mask of every cell and pixel."""
        maps = compactness_maps(self.model, self._images, self.encoding, self.limits.temperature)
        levels = tuple(np.asarray(values[0].cpu().numpy()) for values in maps.levels)
        return Landscape(levels, np.asarray(maps.objects[0].cpu().numpy()))

    @cached_property
    def origins(self) -> Float[np.ndarray, "k k"] | None:
        """What feedback made each slot of, where there was any: see `explain.slots.origins`."""
        found, used = self.encoding, self.encoding.in_use[0]
        if found.masks_from_below is found.masks:
            return None
        before, after = (masks[0][used].cpu().numpy() for masks in (found.masks_from_below, found.masks))
        return origins(before, after)

    @cached_property
    def slots(self) -> SlotPictures:
        """Each slot's own picture and mask, as the decoder paints them."""
        with torch.inference_mode():
            return slot_pictures(self.model, self.encoding, self._painting)

    def scene(self, kept: Bool[np.ndarray, " k"]) -> Float[np.ndarray, "height width 3"]:
        """The scene as the decoder paints it of some of the slots."""
        if kept.shape != (used := (int(self.encoding.in_use[0].sum()),)):
            raise ValueError(f"this image has {used[0]} slots; got {len(kept)} to keep or leave out")
        with torch.inference_mode():
            return scene_of(self.model, self.encoding, self._painting, kept)

    @cached_property
    def _images(self) -> Float[Tensor, "1 3 height width"]:
        return as_images(self.view, self.encoding.masks.device)

    @cached_property
    def _painting(self) -> Painting:
        return self.model.paint(self.encoding, self._images)


def as_images(view: UInt8[np.ndarray, "height width 3"], device: torch.device) -> Float[Tensor, "1 3 height width"]:
    """The model's image as a batch of one."""
    images = torch.from_numpy(np.array(view)).to(device).permute(2, 0, 1).unsqueeze(0)
    return images.float().div_(255).contiguous()


@torch.inference_mode()
def explain(
    model: CocaNet,
    pixels: UInt8[np.ndarray, "h w 3"],
    settings: SegmentSettings,
    asked: tuple[FeedbackConfig, SlotLimits],
    fit: Fit,
    device: torch.device,
) -> Explanation:
    """One pass through the model, and what `Segmenter.segment` would say of each level of it."""
    size = model.config.image_size
    placement = place((len(pixels), pixels.shape[1]), size, fit)
    view = model_view(pixels, placement)
    encoding = model.encode(as_images(view, device), *asked)
    levels = []
    for level in range(1, len(encoding.levels) + 1):
        (found,) = found_in([pixels], [placement], level_masks(encoding, level, size).arrays())
        levels.append(segmentation(found, settings))
    return Explanation(model, pixels, view, placement, tuple(levels), encoding, asked[1])
