"""A trained model that torch runs: `cocanet.load("tetrominoes").segment(image)`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from cocanet.config import CocaNetConfig, FeedbackConfig, Preset
from cocanet.config.slots import SlotLimits, slot_limits, with_slots
from cocanet.models.coca_net import CocaNet, as_coca_net
from cocanet.models.model import ObjectModel
from cocanet.segment.base import AnySegmenter, BatchMasks
from cocanet.segment.explanation import Explanation, explain
from cocanet.segment.images import ImageLike, read_pixels
from cocanet.segment.levels import Masks, level_masks
from cocanet.segment.settings import SegmentSettings
from cocanet.weights.hub import CONFIG, WEIGHTS, is_pretrained, write_pretrained
from cocanet.weights.trained import Checkpoint, Trained, open_model


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

    @property
    def _runs_on(self) -> str:
        return str(self.device)

    def _check(self, settings: SegmentSettings) -> None:
        if settings.level is not None:
            as_coca_net(self.model, "a level of the hierarchy")
        self._asked(settings)

    def explain(self, image: ImageLike, settings: SegmentSettings | None = None) -> Explanation:
        """What every level found in one image, and why, from one pass; the level and whose masks are no question."""
        settings = replace(settings or SegmentSettings(), level=None, masks="encoder")
        model = as_coca_net(self.model, "an explanation")
        asked = self._asked(settings)
        assert asked
        fit = settings.fit or self.preset.data.fit or "stretch"
        return explain(model, read_pixels(image), settings, asked, fit, self.device)

    def save_pretrained(self, folder: Path | str, **options: Any) -> str | None:
        """Write `config.json` and `model.safetensors`, the layout of the Hugging Face hub.

        With the extra `hub` that is done by huggingface-hub's `ModelHubMixin`, which adds a model card and takes its
        own options, such as `push_to_hub=True`.
        """
        if not options and find_spec("huggingface_hub") is None:
            write_pretrained(Path(folder), self.model, self.preset, self.notes)
            return None
        url: str | None = self._on_the_hub().save_pretrained(folder, **options)
        return url

    def push_to_hub(self, name: str, **options: Any) -> str:
        """Upload what `save_pretrained` writes to USER/NAME; options are those of `ModelHubMixin.push_to_hub`."""
        url: str = self._on_the_hub().push_to_hub(name, **options)
        return url

    @classmethod
    def from_pretrained(cls, source: Path | str, device: str = "cpu", **options: Any) -> Segmenter:
        """Read what `save_pretrained` wrote: a folder, or with the extra `hub` USER/NAME, which is downloaded.

        Options are those of `ModelHubMixin.from_pretrained`: `revision`, `cache_dir`, `token`, …
        """
        if Path(source).is_dir():
            if not is_pretrained(Path(source)):
                raise ValueError(f"{source} lacks {CONFIG} or {WEIGHTS}; expected a folder that save_pretrained wrote")
            trained = open_model(Path(source), device)
        else:
            from cocanet.weights.hub_mixin import HubModel

            trained = HubModel.from_pretrained(source, device=device, **options).trained
        return cls(trained.model, trained.preset, trained.notes, device, str(source))

    def _on_the_hub(self) -> Any:
        from cocanet.weights.hub_mixin import HubModel

        return HubModel(Trained(self.model, self.preset, Path(self.source or ""), self.notes))

    @torch.inference_mode()
    def _masks(self, images: Float[np.ndarray, "b 3 height width"], settings: SegmentSettings) -> BatchMasks:
        size, batch = self.preset.model.image_size, torch.from_numpy(images).to(self.device)
        asked = self._asked(settings)
        if settings.masks == "decoder" or not isinstance(self.model, CocaNet):
            out = self.model(batch, *asked)
            masks = out.decoder_masks if settings.masks == "decoder" else out.encoder_masks
            return Masks(masks, out.slots, out.in_use, size, out.reconstruction).arrays()
        found = self.model.encode(batch, *asked)
        return level_masks(found, settings.level or len(found.levels), size).arrays()

    def _asked(self, settings: SegmentSettings) -> tuple[FeedbackConfig, SlotLimits] | tuple[()]:
        """Feedback and slots of a call; the model itself is the same for all calls, also of other threads."""
        config = with_slots(self.preset.model, settings.slots, settings.dynamic, settings.stop_below)
        if not isinstance(config, CocaNetConfig):
            for name in ("feedback", "temperature"):
                if getattr(settings, name) is not None:
                    as_coca_net(self.model, name)
            return ()
        rounds = config.feedback.rounds if settings.feedback is None else settings.feedback
        limits = slot_limits(config, training=False)._replace(temperature=settings.temperature)
        return replace(config.feedback, rounds=rounds), limits


def load(source: str | Path, device: str = "cpu", *, checkpoint: Checkpoint = "last") -> Segmenter:
    """A trained model that torch runs: `cocanet.load` of anything but an exported one."""
    trained = open_model(source, device, checkpoint=checkpoint)
    return Segmenter(trained.model, trained.preset, trained.notes, device, str(source))
