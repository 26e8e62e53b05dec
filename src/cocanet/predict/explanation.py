"""One image through the hierarchy: the segments of every level in the image's own pixels, and their origin."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor

from cocanet.config.slots import SlotLimits
from cocanet.config.windows import Window
from cocanet.explain.compactness import compactness_maps
from cocanet.explain.slot_images import SlotImages, decode_scene, decode_slots
from cocanet.explain.steps import ClusteringSteps, clustering_steps, window_cells
from cocanet.models.coca_net import CocaNet
from cocanet.models.output import Decoded, Encoding
from cocanet.predict.placement import Placement
from cocanet.predict.prediction import Segmentation


class Compactness(NamedTuple):
    """Compactness maps of each level and of the objects; see `explain.compactness.CompactnessMaps`."""

    levels: tuple[Float[np.ndarray, "rows columns"], ...]
    objects: Float[np.ndarray, "height width"]


@dataclass(frozen=True, repr=False, eq=False)
class Explanation:
    """The hierarchy of one image, from one pass through the encoder. Costly values are computed on first use."""

    model: CocaNet
    pixels: UInt8[np.ndarray, "h w 3"]
    """The image, upright."""
    view: UInt8[np.ndarray, "height width 3"]
    """The image at the model's size."""
    placement: Placement
    levels: tuple[Segmentation, ...]
    """What `Segmenter.segment` returns for each level. The last level has the objects, which may be refined."""
    encoding: Encoding
    """Slots, masks and hierarchy of the network, never refined."""
    limits: SlotLimits

    @property
    def refined(self) -> bool:
        """Whether the objects' masks, those of the last level, are refined."""
        return self.levels[-1].refined

    @property
    def cell(self) -> Window:
        """Pixels of the model's image in one cell of the first level."""
        (height, width), (rows, columns) = self.view.shape[:2], self.encoding.levels[0].grid
        return height // rows, width // columns

    def window(self, level: int) -> Window:
        """Cells of the first level in a window of a level; levels count from 1."""
        return window_cells(self.encoding.levels, level - 1)

    def steps(self, level: int) -> ClusteringSteps:
        """The clustering steps of a level, over the first level's cells."""
        return clustering_steps(self.encoding.levels, level - 1)

    def anchors(self, level: int) -> Float[np.ndarray, "w a 2"]:
        """Row and column of a level's anchors in the image's own pixels; NaN for anchors that dynamic slots skip."""
        return self.to_pixels(self.steps(level).anchors)

    def to_pixels(self, cells: Float[np.ndarray, "*shape 2"]) -> Float[np.ndarray, "*shape 2"]:
        """Convert rows and columns of cells to those of the image's pixels; integers are centres in both."""
        axes = []
        for axis, side, values in zip(self.placement, self.cell, np.moveaxis(cells, -1, 0), strict=True):
            seen = ((values + 0.5) * side - axis.start) * (axis.seen / axis.span)
            axes.append(axis.first + seen - 0.5)
        return np.stack(axes, -1)

    @cached_property
    def compactness(self) -> Compactness:
        """Compactness of the mask of every cell and pixel."""
        maps = compactness_maps(self.model, self._images, self.encoding, self.limits.temperature)
        levels = tuple(np.asarray(values[0].cpu().numpy()) for values in maps.levels)
        return Compactness(levels, np.asarray(maps.objects[0].cpu().numpy()))

    @cached_property
    def slots(self) -> SlotImages:
        """Image and decoder mask of each slot in use."""
        with torch.inference_mode():
            return decode_slots(self.model, self.encoding, self._decoded)

    def scene(self, kept: Bool[np.ndarray, " k"]) -> Float[np.ndarray, "height width 3"]:
        """The decoder's reconstruction from some of the slots."""
        if kept.shape != (used := (int(self.encoding.in_use[0].sum()),)):
            raise ValueError(f"this image has {used[0]} slots; got {len(kept)} values to keep or leave out")
        with torch.inference_mode():
            return decode_scene(self.model, self.encoding, self._decoded, kept)

    @cached_property
    def _images(self) -> Float[Tensor, "1 3 height width"]:
        return as_images(self.view, self.encoding.masks.device)

    @cached_property
    def _decoded(self) -> Decoded:
        decoded: Decoded = self.model.decoder(self.encoding, self._images)
        return decoded


def as_images(view: UInt8[np.ndarray, "height width 3"], device: torch.device) -> Float[Tensor, "1 3 height width"]:
    """The model's image as a batch of one."""
    images = torch.from_numpy(np.array(view)).to(device).permute(2, 0, 1).unsqueeze(0)
    return images.float().div_(255).contiguous()
