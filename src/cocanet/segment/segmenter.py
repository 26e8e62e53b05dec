"""A trained model that takes any image: `cocanet.load("tetrominoes").segment(image)`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from cocanet.config import CocaNetConfig, FeedbackConfig, Fit, Preset
from cocanet.config.slots import SlotLimits, slot_limits, with_slots
from cocanet.models.coca_net import CocaNet, as_coca_net
from cocanet.models.model import ObjectModel
from cocanet.segment.explanation import Explanation, explain
from cocanet.segment.images import ImageLike, read_pixels, separate
from cocanet.segment.labelling import Found, segmentation
from cocanet.segment.levels import Masks, found_in, level_masks
from cocanet.segment.placement import model_view, place
from cocanet.segment.result import Segmentation
from cocanet.segment.settings import MaskKind, SegmentSettings
from cocanet.weights.hub import CONFIG, WEIGHTS, is_pretrained, write_pretrained
from cocanet.weights.trained import Checkpoint, Trained, open_model


class Segmenter:
    """A model with trained weights, for images of any size and kind."""

    def __init__(
        self,
        model: ObjectModel,
        preset: Preset,
        notes: Mapping[str, Any] | None = None,
        device: str | torch.device = "cpu",
        source: str | None = None,
    ) -> None:
        self.model = model.to(device).eval()
        self.preset, self.notes = preset, dict(notes or {})
        self.device = torch.device(device)
        self.source = source
        """What its weights were loaded from."""

    def __repr__(self) -> str:
        model, data = self.preset.model, self.preset.data
        height, width = model.image_size
        about = [f"{height}×{width} pixels", f"{model.slots} slots", f"trained on {data.name}", f"on {self.device}"]
        if self.source is not None:
            about.append(f"from {self.source}")
        return f"Segmenter({self.preset.name}: {', '.join(about)})"

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
        if settings.level is not None:
            levels = len(as_coca_net(self.model, "a level of the hierarchy").config.levels)
            if not 1 <= settings.level <= levels:
                raise ValueError(f"level must lie in 1 … {levels} for this model; got {settings.level}")
        self._asked(settings)

    @torch.inference_mode()
    def find(self, batch: Sequence[UInt8[np.ndarray, "_h _w 3"]], settings: SegmentSettings) -> list[Found]:
        """Run the model on images of any sizes; what is found is still at its own size."""
        size, fit = self.preset.model.image_size, settings.fit or self.preset.data.fit or "stretch"
        placements = [place((len(pixels), pixels.shape[1]), size, fit) for pixels in batch]
        views = [model_view(pixels, placement) for pixels, placement in zip(batch, placements, strict=True)]
        images = torch.from_numpy(np.stack(views)).to(self.device).permute(0, 3, 1, 2)
        return found_in(batch, placements, self._masks(images.float().div_(255).contiguous(), settings))

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

    def _masks(self, images: Float[Tensor, "b 3 height width"], settings: SegmentSettings) -> Masks:
        size = self.preset.model.image_size
        asked = self._asked(settings)
        if settings.masks == "decoder" or not isinstance(self.model, CocaNet):
            out = self.model(images, *asked)
            masks = out.decoder_masks if settings.masks == "decoder" else out.encoder_masks
            return Masks(masks, out.slots, out.in_use, size, out.reconstruction)
        found = self.model.encode(images, *asked)
        return level_masks(found, settings.level or len(found.levels), size)

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
    """A trained model, ready to segment images.

    The name of weights that come with the package, a weights file, a run folder (its `checkpoint`) or a folder that
    `save_pretrained` wrote. A name is tried first; write ./NAME for a file or folder of that name.
    """
    trained = open_model(source, device, checkpoint=checkpoint)
    return Segmenter(trained.model, trained.preset, trained.notes, device, str(source))
