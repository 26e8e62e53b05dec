"""A trained model that torch runs: `cocanet.load("tetrominoes").segment(image)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from cocanet.config import CocaNetConfig, Preset, RefineConfig
from cocanet.config.slots import SlotLimits, slot_limits, with_slots
from cocanet.functional.hierarchy import merge_masks
from cocanet.functional.resizing import repeat_cells
from cocanet.io.hub import CONFIG, WEIGHTS, is_pretrained, write_pretrained
from cocanet.io.trained import Checkpoint, Trained, open_model
from cocanet.models.coca_net import CocaNet, as_coca_net
from cocanet.models.model import ObjectModel
from cocanet.models.output import Encoding, Level, Output
from cocanet.predict.base_segmenter import BaseSegmenter
from cocanet.predict.explanation import Explanation, as_images
from cocanet.predict.images import ImageLike, read_pixels
from cocanet.predict.placement import model_view
from cocanet.predict.prediction import RawPrediction, slot_predictions
from cocanet.predict.segment_settings import SegmentSettings
from cocanet.refine import refine


class Segmenter(BaseSegmenter):
    """A model with trained weights that segments images of any size and kind."""

    def __init__(
        self,
        model: ObjectModel,
        preset: Preset,
        notes: Mapping[str, Any] | None = None,
        device: str | torch.device = "cpu",
        source: str | None = None,
    ) -> None:
        super().__init__(preset, notes, source)
        self.model = model.to(device).eval()
        self.device = torch.device(device)

    @classmethod
    def load(cls, source: str | Path, device: str = "cpu", *, checkpoint: Checkpoint = "last") -> Segmenter:
        """Load a name, weights file or folder as `cocanet.load` does, but no exported model."""
        trained = open_model(source, device, checkpoint=checkpoint)
        return cls(trained.model, trained.preset, trained.notes, device, str(source))

    @property
    def _runtime(self) -> str:
        return str(self.device)

    def _check(self, settings: SegmentSettings) -> None:
        if settings.level is not None:
            as_coca_net(self.model, "a level of the hierarchy")
        self._limits(settings)

    def explain(self, image: ImageLike, settings: SegmentSettings | None = None) -> Explanation:
        """Segments of every level of the hierarchy, and their origin, from one pass through the encoder.

        The settings `level` and `masks` have no effect.
        """
        settings = replace(settings or SegmentSettings(), level=None, masks="encoder")
        model, limits = as_coca_net(self.model, "an explanation"), self._limits(settings)
        assert limits is not None
        pixels = read_pixels(image)
        placement = self.placement(pixels, settings)
        view = model_view(pixels, placement)
        images, levels = as_images(view, self.device), []
        with torch.inference_mode():
            encoding = model.encode(images, limits)
            for level in range(1, len(encoding.levels) + 1):
                (raw,) = self._level_predictions(encoding, level, images, settings)
                levels.append(self.label(pixels, raw, settings))
        return Explanation(model, pixels, view, placement, tuple(levels), encoding, limits)

    def save_pretrained(self, folder: Path | str, **options: Any) -> str | None:
        """Write `config.json` and `model.safetensors`, the layout of the Hugging Face hub.

        With the extra `hub`, huggingface-hub's `ModelHubMixin` writes them and adds a model card. It takes its own
        options, such as `push_to_hub=True`.
        """
        if not options and find_spec("huggingface_hub") is None:
            write_pretrained(Path(folder), self.model, self.preset, self.notes)
            return None
        url: str | None = self._hub_model().save_pretrained(folder, **options)
        return url

    def push_to_hub(self, name: str, **options: Any) -> str:
        """Upload the files of `save_pretrained` to USER/NAME; options are those of `ModelHubMixin.push_to_hub`."""
        url: str = self._hub_model().push_to_hub(name, **options)
        return url

    @classmethod
    def from_pretrained(cls, source: Path | str, device: str = "cpu", **options: Any) -> Segmenter:
        """Read the files of `save_pretrained` from a folder, or with the extra `hub` from USER/NAME on the hub.

        Options are those of `ModelHubMixin.from_pretrained`: `revision`, `cache_dir`, `token`, …
        """
        if Path(source).is_dir():
            if not is_pretrained(Path(source)):
                raise ValueError(f"{source} lacks {CONFIG} or {WEIGHTS}; expected a folder that save_pretrained wrote")
            trained = open_model(Path(source), device)
        else:
            from cocanet.io.hub_mixin import HubModel

            trained = HubModel.from_pretrained(source, device=device, **options).trained
        return cls(trained.model, trained.preset, trained.notes, device, str(source))

    def _hub_model(self) -> Any:
        from cocanet.io.hub_mixin import HubModel

        return HubModel(Trained(self.model, self.preset, Path(self.source or ""), self.notes))

    @torch.inference_mode()
    def _predict(self, images: Float[np.ndarray, "b 3 height width"], settings: SegmentSettings) -> list[RawPrediction]:
        batch, limits = torch.from_numpy(images).to(self.device), self._limits(settings)
        if settings.masks == "encoder" and isinstance(self.model, CocaNet):
            encoding = self.model.encode(batch, limits)
            return self._level_predictions(encoding, settings.level or len(encoding.levels), batch, settings)
        output: Output = self.model(batch) if limits is None else self.model(batch, limits)
        masks = output.decoder_masks if settings.masks == "decoder" else output.encoder_masks
        if settings.refine:
            masks = refine(masks, batch, output.in_use, RefineConfig())
        slots, in_use, reconstruction = output.slots, output.in_use, output.reconstruction.clamp(0, 1)
        return slot_predictions(*map(_array, (masks, slots, in_use, reconstruction)), refined=settings.refine)

    def _level_predictions(
        self, encoding: Encoding, level: int, images: Float[Tensor, "b 3 height width"], settings: SegmentSettings
    ) -> list[RawPrediction]:
        """Predictions of a level, from 1; only those of the last level, the objects, are refined."""
        config = as_coca_net(self.model, "a level of the hierarchy").config
        if level < len(encoding.levels):
            masks, features = map(_array, level_masks(encoding.levels, level, config.image_size))
            window = config.window_pixels(level)
            return [RawPrediction(*pair, window) for pair in zip(masks, features, strict=True)]
        objects = encoding.masks
        if settings.refine:
            objects = refine(objects, images, encoding.in_use, RefineConfig())
        return slot_predictions(*map(_array, (objects, encoding.slots, encoding.in_use)), refined=settings.refine)

    def _limits(self, settings: SegmentSettings) -> SlotLimits | None:
        """Slot limits of one call, None for a baseline. The model itself never changes, so threads can share it."""
        config = with_slots(self.preset.model, settings.slots, settings.dynamic, settings.scope_threshold)
        if not isinstance(config, CocaNetConfig):
            if settings.temperature is not None:
                as_coca_net(self.model, "temperature")
            return None
        return slot_limits(config, training=False)._replace(temperature=settings.temperature)


def level_masks(
    levels: Sequence[Level], level: int, size: tuple[int, int]
) -> tuple[Float[Tensor, "b k height width"], Float[Tensor, "b n d"]]:
    """Masks of a level below the last one over the pixels, and its features, window after window; levels from 1."""
    below = levels[:level]
    grid = below[0].grid
    merged = merge_masks([part.clusters.masks for part in below], [part.window for part in below], grid)
    rows = grid[0] // merged.shape[3]
    masks = repeat_cells(rearrange(merged, "b (gr gc) k h v -> b k (gr h) (gc v)", gr=rows), size)
    return masks, rearrange(below[-1].clusters.features, "b w k d -> b (w k) d")


def _array(values: Tensor) -> Any:
    return (values.float() if values.is_floating_point() else values).cpu().numpy()
