"""A trained model that takes any image: `cocanet.load("tetrominoes").segment(image)`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Bool, Float, UInt8
from torch import Tensor

from cocanet.config import CocaNetConfig, FeedbackConfig, Preset
from cocanet.config.slots import SlotLimits, slot_limits, with_slots
from cocanet.config.windows import Window
from cocanet.functional.hierarchy import merge_masks
from cocanet.models.coca_net import CocaNet, as_coca_net
from cocanet.models.model import ObjectModel
from cocanet.segment.images import ImageLike, read_pixels, separate
from cocanet.segment.labelling import Found, segmentation
from cocanet.segment.placement import Fit, model_view, place
from cocanet.segment.result import Segmentation
from cocanet.weights.hub import CONFIG, WEIGHTS, is_pretrained, write_pretrained
from cocanet.weights.trained import Checkpoint, open_model

MaskKind = Literal["encoder", "decoder"]


@dataclass(frozen=True)
class Settings:
    """What to find in an image, and how."""

    masks: MaskKind = "encoder"
    level: int | None = None
    """A level of the hierarchy from 1; the last, whose clusters are the slots, if left out."""
    dynamic: bool | None = None
    """As many slots as it takes to explain the image; as the model was made if left out."""
    slots: int | None = None
    """So many slots, or with `dynamic` at most so many; those of training if left out."""
    min_area: int = 0
    """Segments of fewer pixels are given to their neighbours."""
    fit: Fit = "stretch"
    soft: bool = False
    """Whether the soft masks are wanted too."""
    feedback: int | None = None
    """Rounds of top-down feedback; as the model was made if left out."""

    def __post_init__(self) -> None:
        if self.masks not in get_args(MaskKind):
            raise ValueError(f"masks must be encoder or decoder; got {self.masks!r}")
        if self.fit not in get_args(Fit):
            raise ValueError(f"fit must be one of {', '.join(get_args(Fit))}; got {self.fit!r}")
        if self.level is not None and self.masks == "decoder":
            raise ValueError("the decoder has no levels; leave out the level or ask for the encoder's masks")
        if self.min_area < 0:
            raise ValueError(f"min_area must be 0 or more pixels; got {self.min_area}")
        if self.feedback is not None and self.feedback < 0:
            raise ValueError(f"feedback must be 0 or more rounds; got {self.feedback}")


class _Masks(NamedTuple):
    """A batch of what `Found` holds for one image."""

    masks: Float[Tensor, "b k height width"]
    vectors: Float[Tensor, "b n d"]
    in_use: Bool[Tensor, "b k"] | None
    window: Window
    reconstruction: Float[Tensor, "b 3 height width"] | None = None


class Segmenter:
    """A model with trained weights, for images of any size and kind."""

    def __init__(
        self,
        model: ObjectModel,
        preset: Preset,
        notes: Mapping[str, Any] | None = None,
        device: str | torch.device = "cpu",
    ) -> None:
        self.model = model.to(device).eval()
        self.preset, self.notes = preset, dict(notes or {})
        self.device = torch.device(device)

    def segment(
        self,
        images: ImageLike | Iterable[ImageLike],
        *,
        masks: MaskKind = "encoder",
        level: int | None = None,
        dynamic: bool | None = None,
        slots: int | None = None,
        min_area: int = 0,
        fit: Fit = "stretch",
        soft: bool = False,
        feedback: int | None = None,
        batch_size: int = 16,
    ) -> Segmentation | list[Segmentation]:
        """Find the objects of one image, or of each of several.

        An image is a path, a PIL image, an array (h w, h w 3 or h w 4; uint8, uint16 or floats in [0, 1]) or a tensor
        (3 h w, floats in [0, 1]). Several are a list of them, or an array or tensor with one more axis in front.
        """
        settings = Settings(masks, level, dynamic, slots, min_area, fit, soft, feedback)
        sources = separate(images)
        results = list(self.each(sources.images, settings, batch_size))
        return results[0] if sources.single else results

    def each(
        self, images: Iterable[ImageLike], settings: Settings | None = None, batch_size: int = 16
    ) -> Iterator[Segmentation]:
        """The segmentations of any number of images, a batch at a time."""
        if batch_size < 1:
            raise ValueError(f"a batch needs at least one image; got {batch_size}")
        settings = settings or Settings()
        self.check(settings)
        remaining = map(read_pixels, images)
        while batch := list(islice(remaining, batch_size)):
            for found in self.find(batch, settings):
                yield segmentation(found, min_area=settings.min_area, soft=settings.soft)

    def check(self, settings: Settings) -> None:
        """Refuse what this model cannot do."""
        if settings.level is not None:
            levels = len(as_coca_net(self.model, "a level of the hierarchy").config.levels)
            if not 1 <= settings.level <= levels:
                raise ValueError(f"level must lie in 1 … {levels} for this model; got {settings.level}")
        self._asked(settings)

    @torch.inference_mode()
    def find(self, batch: Sequence[UInt8[np.ndarray, "_h _w 3"]], settings: Settings) -> list[Found]:
        """Run the model on images of any sizes; what is found is still at its own size."""
        size = self.preset.model.image_size
        placements = [place((len(pixels), pixels.shape[1]), size, settings.fit) for pixels in batch]
        views = [model_view(pixels, placement) for pixels, placement in zip(batch, placements, strict=True)]
        images = torch.from_numpy(np.stack(views)).to(self.device).permute(0, 3, 1, 2)
        found = self._masks(images.float().div_(255).contiguous(), settings)
        masks, vectors = found.masks.float().cpu(), found.vectors.float().cpu()
        in_use = None if found.in_use is None else found.in_use.cpu()
        painted = None if found.reconstruction is None else found.reconstruction.float().cpu()
        return [
            Found(
                pixels,
                placement,
                masks[index] if in_use is None else masks[index][in_use[index]],
                vectors[index] if in_use is None else vectors[index][in_use[index]],
                found.window,
                None if painted is None else painted[index],
            )
            for index, (pixels, placement) in enumerate(zip(batch, placements, strict=True))
        ]

    def save_pretrained(self, folder: Path | str) -> None:
        """Write `config.json` and `model.safetensors`, the layout of the Hugging Face hub."""
        write_pretrained(Path(folder), self.model, self.preset, self.notes)

    @classmethod
    def from_pretrained(cls, folder: Path | str, device: str = "cpu") -> Segmenter:
        """Read what `save_pretrained` wrote; nothing is downloaded."""
        if not is_pretrained(Path(folder)):
            raise ValueError(f"{folder} lacks {CONFIG} or {WEIGHTS}; expected a folder that save_pretrained wrote")
        trained = open_model(Path(folder), device)
        return cls(trained.model, trained.preset, trained.notes, device)

    def _masks(self, images: Float[Tensor, "b 3 height width"], settings: Settings) -> _Masks:
        size = self.preset.model.image_size
        asked = self._asked(settings)
        if settings.masks == "decoder" or not isinstance(self.model, CocaNet):
            out = self.model(images, *asked)
            masks = out.decoder_masks if settings.masks == "decoder" else out.encoder_masks
            return _Masks(masks, out.slots, out.in_use, size, out.reconstruction)
        found = self.model.encode(images, *asked)
        level = settings.level or len(found.levels)
        if level == len(found.levels):
            return _Masks(found.masks, found.slots, found.in_use, size)
        below = found.levels[:level]
        merged = merge_masks([part.clusters.masks for part in below], [part.window for part in below], size)
        window = merged.shape[3], merged.shape[4]
        masks = rearrange(merged, "b (gr gc) k h v -> b k (gr h) (gc v)", gr=size[0] // window[0])
        return _Masks(masks, rearrange(below[-1].clusters.features, "b w k d -> b (w k) d"), None, window)

    def _asked(self, settings: Settings) -> tuple[FeedbackConfig, SlotLimits] | tuple[()]:
        """Feedback and slots of a call; the model itself is the same for all calls, also of other threads."""
        config = with_slots(self.preset.model, settings.slots, settings.dynamic)
        if not isinstance(config, CocaNetConfig):
            if settings.feedback is not None:
                as_coca_net(self.model, "feedback")
            return ()
        rounds = config.feedback.rounds if settings.feedback is None else settings.feedback
        return replace(config.feedback, rounds=rounds), slot_limits(config, training=False)


def load(source: str | Path, device: str = "cpu", *, checkpoint: Checkpoint = "last") -> Segmenter:
    """A trained model, ready to segment images.

    The name of weights that come with the package, a weights file, a run folder (its `checkpoint`) or a folder that
    `save_pretrained` wrote. A name is tried first; write ./NAME for a file or folder of that name.
    """
    trained = open_model(source, device, checkpoint=checkpoint)
    return Segmenter(trained.model, trained.preset, trained.notes, device)
