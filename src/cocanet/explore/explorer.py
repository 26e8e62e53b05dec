"""The state behind the page: models, images, explanations and labels, shared by all clients."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TypeVar

import numpy as np
from jaxtyping import UInt8

from cocanet.config import DataConfig
from cocanet.data.generators import SCENE_NAMES, make_scenes
from cocanet.data.splits import SEEDS
from cocanet.data.store_format import is_store
from cocanet.explore import editing, mending
from cocanet.explore.cache import Cache
from cocanet.explore.display import thumbnail
from cocanet.explore.export_labels import ExportedLabels, LabelFormat, LabelledImage, export_labels
from cocanet.explore.gallery import (
    DROPPED,
    DroppedImages,
    FolderGallery,
    Gallery,
    GalleryEntry,
    NotFoundError,
    SceneGallery,
)
from cocanet.explore.labels import EXPORTED, LabelDocument, LabelFolder
from cocanet.io.trained import shipped_names
from cocanet.models.coca_net import as_coca_net
from cocanet.predict.explanation import Explanation
from cocanet.predict.inputs import find_images
from cocanet.predict.prediction import Segmentation
from cocanet.predict.segment_settings import SegmentSettings
from cocanet.predict.segmenter import Segmenter
from cocanet.runtime import return_freed_memory

T = TypeVar("T")

FIRST_MODEL = "multi-dsprites"
"""The first of the shipped weights on the page."""
SCENES = 60
SCENE_SEED = 1 + max(SEEDS.values())
"""A seed of none of the splits."""
LABEL_FOLDER = "coca-labels"
MAX_EXPLANATIONS = 12
MAX_SLOTS = 64
"""More slots than this are refused: one request must not occupy the machine for minutes."""


class Explorer:
    """Everything behind the page; safe to share between threads."""

    def __init__(
        self,
        models: Mapping[str, Callable[[], Segmenter]],
        galleries: Mapping[str, Gallery],
        folder: Path,
        *,
        refine: bool = False,
    ) -> None:
        """Functions that load models, by name, each model's gallery, and the folder for labels.

        With `refine` the page starts with refined masks.
        """
        self.models, self.galleries, self.refine = list(models), dict(galleries), refine
        self.labels = LabelFolder(folder)
        self.dropped = DroppedImages(folder / DROPPED)
        self._load = dict(models)
        self._segmenters: Cache[Segmenter] = Cache(len(models))
        self._pixels: Cache[np.ndarray] = Cache(256, 2**28, lambda pixels: pixels.nbytes)
        self._thumbnails: Cache[bytes] = Cache(4096, 2**26, len)
        self._explanations: Cache[Explanation] = Cache(MAX_EXPLANATIONS, 2**29, lambda found: 8.0 * found.pixels.nbytes)
        self._workers = threading.Semaphore(os.cpu_count() or 1)
        self._thread = threading.local()
        self._exporting = threading.Lock()
        self._names = {entry.key: entry.name for gallery in self.galleries.values() for entry in gallery.entries}

    def segmenter(self, model: str) -> Segmenter:
        self._check_model(model)

        def load_model() -> Segmenter:
            segmenter = self._load[model]()
            as_coca_net(segmenter.model, "the explorer")
            return segmenter

        return self._segmenters.get(model, load_model)

    def entries(self, model: str) -> list[GalleryEntry]:
        """The images of a model's gallery, and labelled images that were dropped on the page."""
        self._check_model(model)
        return [*self.galleries[model].entries, *self.dropped.entries]

    def entry(self, key: str) -> GalleryEntry:
        name = self._names.get(key) or self.dropped.name(key)
        if name is None:
            raise NotFoundError("there is no such image; drop it again if it was dropped before")
        return GalleryEntry(key, name)

    def pixels(self, model: str, key: str) -> UInt8[np.ndarray, "h w 3"]:
        """An image, upright; ValueError if it cannot be read."""
        self._check_model(model)
        self.entry(key)
        if key not in self._names:
            return self._decode(lambda: self.dropped.read(key))
        return self._pixels.get((model, key), lambda: self._decode(lambda: self.galleries[model].read(key)))

    def drop(self, data: bytes, name: str) -> GalleryEntry:
        """Decode an image that a browser sent."""
        return self._decode(lambda: self.dropped.add(data, name))

    def _decode(self, decode: Callable[[], T]) -> T:
        """Decode an image, a few at once, and keep none of the memory that it took besides."""

        def decoded() -> T:
            try:
                return decode()
            finally:
                return_freed_memory()

        return self.limited(decoded)

    def thumbnail(self, model: str, key: str) -> bytes:
        return self._thumbnails.get((model, key), lambda: thumbnail(self.pixels(model, key)))

    def explain(self, model: str, key: str, settings: SegmentSettings) -> Explanation:
        """What a model predicts for an image, and why; the latest explanations are cached."""
        if settings.slots is not None and settings.slots > MAX_SLOTS:
            raise ValueError(f"slots must be at most {MAX_SLOTS} here; got {settings.slots}")
        segmenter, pixels = self.segmenter(model), self.pixels(model, key)
        return self._explanations.get(
            (model, key, settings), lambda: self.limited(lambda: segmenter.explain(pixels, settings))
        )

    def limited(self, make: Callable[[], T]) -> T:
        """Run a computation, at most as many at once as there are cores; one inside of another does not wait."""
        if getattr(self._thread, "works", False):
            return make()
        with self._workers:
            self._thread.works = True
            try:
                return make()
            finally:
                self._thread.works = False

    def document(self, model: str, key: str) -> LabelDocument | None:
        """The labels of an image; ValueError if they cannot be used."""
        document = self.labels.read(self.entry(key).name)
        if document is not None:
            self._check_size(document, self.pixels(model, key))
        return document

    def edit(
        self,
        model: str,
        key: str,
        settings: SegmentSettings,
        action: str,
        *,
        level: int,
        revision: int,
        segments: Sequence[int] = (),
        category: str = "",
        drawing: mending.Drawing | None = None,
    ) -> LabelDocument:
        """Edit the labels of an image; an image without labels begins with the prediction of a level."""
        entry = self.entry(key)

        def predicted(number: int) -> Segmentation:
            levels = self.explain(model, key, settings).levels
            return levels[min(number, len(levels)) - 1]

        def make(document: LabelDocument | None) -> LabelDocument:
            if document is not None:
                self._check_size(document, self.pixels(model, key))
                if action == "restart":
                    found = predicted(level)
                    return editing.restart(document, found.labels, level, refined=found.refined)
            else:
                found = predicted(level)
                weights = self._weights(model)
                document = editing.begin(entry.name, weights, found.labels, level, refined=found.refined)
                if key not in self._names:
                    self.dropped.save(key)
            if action in ("keep", "restart"):
                return document
            if action in mending.ACTIONS:
                drawn = replace(drawing or mending.Drawing(), level=level)
                return self.limited(
                    lambda: mending.apply(document, action, segments, drawn, lambda: self.pixels(model, key))
                )
            return editing.apply(document, action, segments, category, lambda number: predicted(number).labels)

        return self.labels.edit(entry.name, revision, make)

    def export(self, model: str, kind: LabelFormat) -> tuple[ExportedLabels, list[str]]:
        """Write the labels of a gallery's images; also returns why some were left out."""
        images, errors, labelled = list[LabelledImage](), list[str](), self.labels.names
        entries = self.entries(model)
        shown = {entry.name for entry in entries} | set(self._names.values())
        errors += [f"{name} has labels, but the image is not here" for name in sorted(labelled - shown)]
        for entry in entries:
            if entry.name not in labelled:
                continue
            try:
                document = self.document(model, entry.key)
            except (ValueError, OSError, NotFoundError) as error:
                errors.append(str(error))
                continue
            if document is not None:
                images.append(LabelledImage(entry.name, document, partial(self.pixels, model, entry.key)))
        if not images and errors:
            raise ValueError(f"no labels could be read; the first error: {errors[0]}")
        size = min(self.segmenter(model).preset.model.image_size)
        with self._exporting:
            return export_labels(kind, images, self.labels.folder / EXPORTED, size), errors

    def _weights(self, model: str) -> str:
        segmenter = self.segmenter(model)
        return segmenter.source or segmenter.preset.name

    def _check_model(self, model: str) -> None:
        if model not in self.galleries:
            raise NotFoundError(f"there is no model {model!r}; expected one of {', '.join(self.models)}")

    def _check_size(self, document: LabelDocument, pixels: UInt8[np.ndarray, "h w 3"]) -> None:
        if document.size != pixels.shape[:2]:
            (height, width), (high, wide) = document.size, pixels.shape[:2]
            raise ValueError(
                f"{self.labels.path(document.image)} has labels of {width}×{height} pixels, but the image now has "
                f"{wide}×{high}; they are left as they are"
            )


def open_explorer(
    weights: str | None, paths: Sequence[str], labels: Path | None = None, device: str = "cpu", *, refine: bool = False
) -> Explorer:
    """An explorer of weights, or of all shipped ones, with images, or with new scenes of each model's data set."""
    names = [weights] if weights is not None else sorted(shipped_names(), key=lambda name: (name != FIRST_MODEL, name))
    models: dict[str, Callable[[], Segmenter]] = {
        _short_name(name): cache(partial(Segmenter.load, name, device)) for name in names
    }
    if weights is not None:
        as_coca_net(models[_short_name(weights)]().model, "the explorer")
    if not paths:
        scenes = {name: made for name in models if (made := _scenes_for(models[name]().preset.data))}
        if not scenes:
            raise ValueError(
                f"images for {' and '.join(models) or 'no weights'} are not generated; give a folder of them"
            )
        models = {name: models[name] for name in scenes}
        return Explorer(models, scenes, Path(labels or LABEL_FOLDER), refine=refine)
    inputs = find_images(paths, Path(labels or LABEL_FOLDER))
    folder = Path(labels) if labels else _label_folder(inputs.root)
    gallery = FolderGallery(inputs, folder.absolute())
    return Explorer(models, dict.fromkeys(models, gallery), folder, refine=refine)


def _short_name(weights: str) -> str:
    """A name without slashes, for URLs: the last parts of a path."""
    return " ".join(part for part in Path(weights).parts[-2:] if part not in ("/", ".", "..")) or weights


def _label_folder(root: Path) -> Path:
    """The default folder for labels: inside the folder of images, or beside a store."""
    return root.with_name(f"{root.name}-labels") if is_store(root) else root / LABEL_FOLDER


def _scenes_for(data: DataConfig) -> Gallery | None:
    """Scenes of a data set that are generated on request; None for photographs."""
    if data.name not in SCENE_NAMES:
        return None
    make = partial(make_scenes, data.name, count=SCENES, seed=SCENE_SEED, max_objects=data.max_objects)
    return SceneGallery(data.name, SCENE_SEED, SCENES, make)
