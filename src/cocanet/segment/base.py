"""What every segmenter does, whatever runs its model: images in, segmentations out. No torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, UInt8

from cocanet.config import CocaNetConfig, Fit, Preset
from cocanet.config.windows import Window
from cocanet.segment.images import ImageLike, read_pixels, separate
from cocanet.segment.labelling import Found, segmentation
from cocanet.segment.placement import Placement, model_view, place
from cocanet.segment.result import Segmentation
from cocanet.segment.settings import MaskKind, SegmentSettings


class BatchMasks(NamedTuple):
    """A batch of what `Found` holds for one image."""

    masks: Float[np.ndarray, "b k height width"]
    vectors: Float[np.ndarray, "b n d"]
    in_use: Bool[np.ndarray, "b k"] | None
    window: Window
    reconstruction: Float[np.ndarray, "b 3 height width"] | None = None


class AnySegmenter(ABC):
    """A trained model for images of any size and kind; what runs it says `_masks` and `_check`."""

    device: Any
    """What its model runs on; `str` of it is how `load` is told."""

    def __init__(self, preset: Preset, notes: Mapping[str, Any] | None, source: str | None) -> None:
        self.preset, self.notes = preset, dict(notes or {})
        self.source = source
        """What its weights were loaded from."""

    @abstractmethod
    def _masks(self, images: Float[np.ndarray, "b 3 height width"], settings: SegmentSettings) -> BatchMasks:
        """Run the model on images of its own size."""

    @abstractmethod
    def _check(self, settings: SegmentSettings) -> None:
        """Refuse what whatever runs the model cannot do."""

    @property
    @abstractmethod
    def _runs_on(self) -> str:
        """What runs the model, in a word or two."""

    def __repr__(self) -> str:
        model, data = self.preset.model, self.preset.data
        height, width = model.image_size
        about = [f"{height}×{width} pixels", f"{model.slots} slots", f"trained on {data.name}", f"on {self._runs_on}"]
        if self.source is not None:
            about.append(f"from {self.source}")
        return f"{type(self).__name__}({self.preset.name}: {', '.join(about)})"

    def segment(
        self,
        images: ImageLike | Iterable[ImageLike],
        *,
        masks: MaskKind = "encoder",
        level: int | None = None,
        dynamic: bool | None = None,
        slots: int | None = None,
        feedback: int | None = None,
        min_area: int | float = SegmentSettings.min_area,
        components: bool = False,
        fit: Fit | None = None,
        temperature: float | None = None,
        stop_below: float | None = None,
        soft: bool = False,
        batch_size: int = 16,
    ) -> Segmentation | list[Segmentation]:
        """Find the objects of one image, or of each of several.

        An image is a path, a PIL image, an array (h w, h w 3 or h w 4; uint8, uint16 or floats in [0, 1]) or a tensor
        (3 h w, floats in [0, 1]). Several are a list of them, or an array or tensor with one more axis in front.
        The options are the fields of `SegmentSettings`; `soft` adds the soft masks.
        """
        settings = SegmentSettings(
            masks, level, dynamic, slots, feedback, min_area, components, fit, temperature, stop_below
        )
        sources = separate(images)
        results = list(self.each(sources.images, settings, batch_size, soft=soft))
        return results[0] if sources.single else results

    def each(
        self,
        images: Iterable[ImageLike],
        settings: SegmentSettings | None = None,
        batch_size: int = 16,
        *,
        soft: bool = False,
    ) -> Iterator[Segmentation]:
        """The segmentations of any number of images, a batch at a time."""
        if batch_size < 1:
            raise ValueError(f"a batch needs at least one image; got {batch_size}")
        settings = settings or SegmentSettings()
        self.check(settings)
        remaining = map(read_pixels, images)
        while batch := list(islice(remaining, batch_size)):
            for found in self.find(batch, settings):
                yield segmentation(found, settings, soft=soft)

    def check(self, settings: SegmentSettings) -> None:
        """Refuse what this model cannot do."""
        model = self.preset.model
        if settings.level is not None and isinstance(model, CocaNetConfig):
            levels = len(model.levels)
            if not 1 <= settings.level <= levels:
                raise ValueError(f"level must lie in 1 … {levels} for this model; got {settings.level}")
        self._check(settings)

    def find(self, batch: Sequence[UInt8[np.ndarray, "_h _w 3"]], settings: SegmentSettings) -> list[Found]:
        """Run the model on images of any sizes; what is found is still at its own size."""
        size, fit = self.preset.model.image_size, settings.fit or self.preset.data.fit or "stretch"
        placements = [place((len(pixels), pixels.shape[1]), size, fit) for pixels in batch]
        views = [model_view(pixels, placement) for pixels, placement in zip(batch, placements, strict=True)]
        images = np.stack(views).transpose(0, 3, 1, 2).astype(np.float32, order="C")
        images /= 255
        return found_in(batch, placements, self._masks(images, settings))


def found_in(
    batch: Sequence[UInt8[np.ndarray, "_h _w 3"]], placements: Sequence[Placement], found: BatchMasks
) -> list[Found]:
    """What was found in each image of a batch, without the slots that only pad it."""
    masks, vectors, in_use, window, painted = found
    return [
        Found(
            pixels,
            placement,
            masks[index] if in_use is None else masks[index][in_use[index]],
            vectors[index] if in_use is None else vectors[index][in_use[index]],
            window,
            None if painted is None else painted[index],
        )
        for index, (pixels, placement) in enumerate(zip(batch, placements, strict=True))
    ]
