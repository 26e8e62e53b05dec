"""What all segmenters share, whatever runs the model: images in, segmentations out. Without torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8

from cocanet.config import CocaNetConfig, Fit, Preset
from cocanet.predict.images import ImageLike, read_pixels, separate
from cocanet.predict.placement import Placement, model_view, place
from cocanet.predict.prediction import RawPrediction, Segmentation, label_prediction
from cocanet.predict.segment_settings import MaskKind, SegmentSettings


class BaseSegmenter(ABC):
    """A trained model that segments images of any size and kind."""

    device: Any
    """The device of the model; `load` takes `str(device)`."""

    def __init__(self, preset: Preset, notes: Mapping[str, Any] | None, source: str | None) -> None:
        self.preset, self.notes = preset, dict(notes or {})
        self.source = source
        """Name or path that the weights were loaded from."""

    @abstractmethod
    def _predict(self, images: Float[np.ndarray, "b 3 height width"], settings: SegmentSettings) -> list[RawPrediction]:
        """Run the model on images of its own size."""

    @abstractmethod
    def _check(self, settings: SegmentSettings) -> None:
        """Refuse settings that this runtime does not support."""

    @property
    @abstractmethod
    def _runtime(self) -> str:
        """The runtime and device, for messages."""

    def refines(self, settings: SegmentSettings) -> bool:
        """Whether these settings give refined masks."""
        return settings.refine

    def __repr__(self) -> str:
        model, data = self.preset.model, self.preset.data
        height, width = model.image_size
        facts = [f"{height}×{width} pixels", f"{model.slots} slots", f"trained on {data.name}", f"on {self._runtime}"]
        if self.source is not None:
            facts.append(f"from {self.source}")
        return f"{type(self).__name__}({self.preset.name}: {', '.join(facts)})"

    def segment(
        self,
        images: ImageLike | Iterable[ImageLike],
        *,
        masks: MaskKind = "encoder",
        level: int | None = None,
        dynamic: bool | None = None,
        slots: int | None = None,
        refine: bool = False,
        min_area: int | float = SegmentSettings.min_area,
        min_score: int | float = SegmentSettings.min_score,
        components: bool = False,
        fit: Fit | None = None,
        temperature: float | None = None,
        scope_threshold: float | None = None,
        soft: bool = False,
        batch_size: int = 16,
    ) -> Segmentation | list[Segmentation]:
        """Segment one image, or each of several.

        An image is a path, the bytes of a file, a PIL image, an array (h w, h w 3 or h w 4; uint8, uint16 or floats in
        [0, 1]) or a tensor (3 h w, floats in [0, 1]). Several are a list, or an array or tensor with a batch axis.
        The options are the fields of `SegmentSettings`; `soft` adds the soft masks.
        """
        settings = SegmentSettings(
            masks, level, dynamic, slots, refine, min_area, min_score, components, fit, temperature, scope_threshold
        )
        given = separate(images)
        results = list(self.each(given.images, settings, batch_size, soft=soft))
        return results[0] if given.single else results

    def each(
        self,
        images: Iterable[ImageLike],
        settings: SegmentSettings | None = None,
        batch_size: int = 16,
        *,
        soft: bool = False,
    ) -> Iterator[Segmentation]:
        """Segment any number of images, one batch at a time."""
        if batch_size < 1:
            raise ValueError(f"a batch needs at least one image; got {batch_size}")
        settings = settings or SegmentSettings()
        self.check(settings)
        remaining = map(read_pixels, images)
        while batch := list(islice(remaining, batch_size)):
            for pixels, raw in zip(batch, self.predict(batch, settings), strict=True):
                yield self.label(pixels, raw, settings, soft=soft)

    def check(self, settings: SegmentSettings) -> None:
        """Refuse settings that this model does not support."""
        model = self.preset.model
        if settings.level is not None and isinstance(model, CocaNetConfig):
            levels = len(model.levels)
            if not 1 <= settings.level <= levels:
                raise ValueError(f"level must lie in 1 … {levels} for this model; got {settings.level}")
            if settings.refine and settings.level < levels:
                raise ValueError(f"only objects' masks are refined; got refine with level {settings.level} of {levels}")
        self._check(settings)

    def predict(self, batch: Sequence[UInt8[np.ndarray, "_h _w 3"]], settings: SegmentSettings) -> list[RawPrediction]:
        """Predictions for images of any sizes, still at the model's own size."""
        views = np.stack([model_view(pixels, self.placement(pixels, settings)) for pixels in batch])
        images = views.transpose(0, 3, 1, 2).astype(np.float32, order="C")
        images /= 255
        return self._predict(images, settings)

    def label(
        self, pixels: UInt8[np.ndarray, "h w 3"], raw: RawPrediction, settings: SegmentSettings, *, soft: bool = False
    ) -> Segmentation:
        """The prediction as numbered segments in the image's own pixels."""
        return label_prediction(raw, pixels, self.placement(pixels, settings), settings, soft=soft)

    def placement(self, pixels: UInt8[np.ndarray, "h w 3"], settings: SegmentSettings) -> Placement:
        """Where the image's pixels lie in the model's image."""
        fit = settings.fit or self.preset.data.fit or "stretch"
        return place((len(pixels), pixels.shape[1]), self.preset.model.image_size, fit)
