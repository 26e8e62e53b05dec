"""A trained model that torch runs: `cocanet.load("tetrominoes").segment(image)`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from cocanet.config import CocaNetConfig, FeedbackConfig, Preset
from cocanet.config.slots import SlotLimits, slot_limits, with_slots
from cocanet.models.coca_net import CocaNet, as_coca_net
from cocanet.models.model import ObjectModel
from cocanet.segment.base import AnySegmenter, BatchMasks
from cocanet.segment.settings import SegmentSettings
from cocanet.weights.hub import CONFIG, WEIGHTS, is_pretrained, write_pretrained
from cocanet.weights.trained import open_model


class Segmenter(AnySegmenter):
    """A model with trained weights, for images of any size and kind."""

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

    def save_pretrained(self, folder: Path | str) -> None:
        """Write `config.json` and `model.safetensors`, the layout of the Hugging Face hub."""
        write_pretrained(Path(folder), self.model, self.preset, self.notes)

    @classmethod
    def from_pretrained(cls, folder: Path | str, device: str = "cpu") -> Segmenter:
        """Read what `save_pretrained` wrote; nothing is downloaded."""
        if not is_pretrained(Path(folder)):
            raise ValueError(f"{folder} lacks {CONFIG} or {WEIGHTS}; expected a folder that save_pretrained wrote")
        trained = open_model(Path(folder), device)
        return cls(trained.model, trained.preset, trained.notes, device, str(folder))

    @property
    def _runs_on(self) -> str:
        return str(self.device)

    def _check(self, settings: SegmentSettings) -> None:
        if settings.level is not None:
            as_coca_net(self.model, "a level of the hierarchy")
        self._asked(settings)

    @torch.inference_mode()
    def _masks(self, images: Float[np.ndarray, "b 3 height width"], settings: SegmentSettings) -> BatchMasks:
        size, batch = self.preset.model.image_size, torch.from_numpy(images).to(self.device)
        asked = self._asked(settings)
        if settings.masks == "decoder" or not isinstance(self.model, CocaNet):
            out = self.model(batch, *asked)
            masks = out.decoder_masks if settings.masks == "decoder" else out.encoder_masks
            return BatchMasks(_array(masks), _array(out.slots), _flags(out.in_use), size, _array(out.reconstruction))
        found = self.model.encode(batch, *asked)
        level = settings.level or len(found.levels)
        if level == len(found.levels):
            return BatchMasks(_array(found.masks), _array(found.slots), _flags(found.in_use), size)
        parts = self.model.parts(found.levels[:level])
        return BatchMasks(_array(parts.masks), _array(parts.features), None, self.model.config.window_pixels(level))

    def _asked(self, settings: SegmentSettings) -> tuple[FeedbackConfig, SlotLimits] | tuple[()]:
        """Feedback and slots of a call; the model itself is the same for all calls, also of other threads."""
        config = with_slots(self.preset.model, settings.slots, settings.dynamic)
        if not isinstance(config, CocaNetConfig):
            if settings.feedback is not None:
                as_coca_net(self.model, "feedback")
            return ()
        rounds = config.feedback.rounds if settings.feedback is None else settings.feedback
        return replace(config.feedback, rounds=rounds), slot_limits(config, training=False)


def _array(values: Tensor) -> Float[np.ndarray, "..."]:
    return np.asarray(values.float().cpu().numpy())


def _flags(values: Bool[Tensor, "b k"]) -> Bool[np.ndarray, "b k"]:
    return np.asarray(values.cpu().numpy())
