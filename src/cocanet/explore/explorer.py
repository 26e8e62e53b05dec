"""What the page asks of the library: models, images, explanations and labels, shared by all who look."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int, UInt8

from cocanet.explore import editing
from cocanet.explore.document import Document
from cocanet.explore.exports import Exported, Kind, Labelled, export
from cocanet.explore.gallery import DROPPED, Dropped, Entry, Gallery, NotThereError
from cocanet.explore.labels import Labels
from cocanet.explore.memo import Memo
from cocanet.explore.shown import thumbnail
from cocanet.models.coca_net import as_coca_net
from cocanet.segment.explanation import Explanation
from cocanet.segment.segmenter import Segmenter
from cocanet.segment.settings import SegmentSettings

HELD = 12
"""Explanations that are held, for those who look at more of one."""
MOST_SLOTS, MOST_ROUNDS = 64, 64
"""What may be asked for at most: a page must not keep the machine busy for minutes."""


class Explorer:
    """Everything behind the page; safe to share between threads."""

    def __init__(
        self,
        models: Mapping[str, Callable[[], Segmenter]],
        galleries: Mapping[str, Gallery],
        folder: Path,
    ) -> None:
        """Models by name, loaded when first asked for, each with its gallery; labels go to the folder."""
        self.models, self.galleries = list(models), dict(galleries)
        self.labels = Labels(folder)
        self.dropped = Dropped(folder / DROPPED)
        self._load = dict(models)
        self._segmenters: Memo[Segmenter] = Memo(len(models))
        self._pixels: Memo[np.ndarray] = Memo(256, 2**28, lambda pixels: pixels.nbytes)
        self._thumbnails: Memo[bytes] = Memo(4096, 2**26, len)
        self._explanations: Memo[Explanation] = Memo(HELD, 2**29, lambda found: 8.0 * found.pixels.nbytes)
        self._busy = threading.Semaphore(os.cpu_count() or 1)
        self._names = {entry.key: entry.name for gallery in self.galleries.values() for entry in gallery.entries}

    def segmenter(self, model: str) -> Segmenter:
        if model not in self._load:
            raise NotThereError(f"there is no model {model!r}; there are {', '.join(self.models)}")

        def load() -> Segmenter:
            segmenter = self._load[model]()
            as_coca_net(segmenter.model, "the explorer")
            return segmenter

        return self._segmenters.get(model, load)

    def entries(self, model: str) -> list[Entry]:
        """The images of a model's gallery, and those that were dropped and labelled."""
        return [*self._gallery(model).entries, *self.dropped.entries]

    def entry(self, key: str) -> Entry:
        name = self._names.get(key) or self.dropped.name(key)
        if name is None:
            raise NotThereError("there is no such image; a dropped one that is no longer held has to be dropped again")
        return Entry(key, name)

    def pixels(self, model: str, key: str) -> UInt8[np.ndarray, "h w 3"]:
        """An image, upright; ValueError where it cannot be read."""
        self.entry(key)
        if key not in self._names:
            return self.dropped.read(key)
        return self._pixels.get((model, key), lambda: self._gallery(model).read(key))

    def thumbnail(self, model: str, key: str) -> bytes:
        return self._thumbnails.get((model, key), lambda: thumbnail(self.pixels(model, key)))

    def explain(self, model: str, key: str, settings: SegmentSettings) -> Explanation:
        """What a model finds in an image; asked again soon, the same answer."""
        if settings.slots is not None and settings.slots > MOST_SLOTS:
            raise ValueError(f"slots must be at most {MOST_SLOTS} here; got {settings.slots}")
        if settings.feedback is not None and settings.feedback > MOST_ROUNDS:
            raise ValueError(f"feedback must be at most {MOST_ROUNDS} rounds here; got {settings.feedback}")
        segmenter, pixels = self.segmenter(model), self.pixels(model, key)

        def make() -> Explanation:
            with self._busy:
                return segmenter.explain(pixels, settings)

        return self._explanations.get((model, key, settings), make)

    def working(self, make: Callable[[], Any]) -> Any:
        """Run what costs time, no more at once than there are cores."""
        with self._busy:
            return make()

    def document(self, model: str, key: str) -> Document | None:
        """The labels of an image; ValueError where they cannot be used."""
        document = self.labels.read(self.entry(key).name)
        if document is not None:
            self._check_size(document, self.pixels(model, key))
        return document

    def edit(
        self, model: str, key: str, settings: SegmentSettings, level: int, seen: int, action: str, **given: Any
    ) -> Document:
        """Change the labels of an image, from those found if there are none yet."""
        entry = self.entry(key)

        def labels_of(number: int) -> Int[np.ndarray, "h w"]:
            found = self.explain(model, key, settings)
            return found.levels[min(number, len(found.levels)) - 1].labels

        def make(there: Document | None) -> Document:
            if there is not None:
                self._check_size(there, self.pixels(model, key))
            if action == "restart" and there is not None:
                return editing.again(there, labels_of(level), level)
            first = there or editing.begin(entry.name, self._weights(model), labels_of(level), level)
            if there is None:
                self._keep(key)
            return first if action in ("keep", "restart") else _act(first, action, given, labels_of)

        return self.labels.change(entry.name, seen, make)

    def export(self, model: str, kind: Kind) -> tuple[Exported, list[str]]:
        """Write the labels of the gallery's images; and why some were left out."""
        images, refused, labelled = list[Labelled](), list[str](), self.labels.names
        for entry in self.entries(model):
            if entry.name not in labelled:
                continue
            try:
                document = self.document(model, entry.key)
            except (ValueError, OSError, NotThereError) as error:
                refused.append(str(error))
                continue
            if document is not None:
                images.append(Labelled(entry.name, document, partial(self.pixels, model, entry.key)))
        if not images and refused:
            raise ValueError(f"no labels could be read; the first: {refused[0]}")
        size = min(self.segmenter(model).preset.model.image_size)
        return export(kind, images, self.labels.folder / "exported", size), refused

    def _keep(self, key: str) -> None:
        """Labels of a dropped image need the image."""
        if key not in self._names:
            self.dropped.keep(key)

    def _weights(self, model: str) -> str:
        segmenter = self.segmenter(model)
        return segmenter.source or segmenter.preset.name

    def _gallery(self, model: str) -> Gallery:
        if model not in self.galleries:
            raise NotThereError(f"there is no model {model!r}; there are {', '.join(self.models)}")
        return self.galleries[model]

    def _check_size(self, document: Document, pixels: UInt8[np.ndarray, "h w 3"]) -> None:
        if document.size != pixels.shape[:2]:
            (height, width), (high, wide) = document.size, pixels.shape[:2]
            raise ValueError(
                f"{self.labels.path(document.image)} has labels of {width}×{height} pixels, but the image now has "
                f"{wide}×{high}; they are left as they are"
            )


def _act(document: Document, action: str, given: Mapping[str, Any], parts: editing.Parts) -> Document:
    things = given.get("things", ())
    acts: dict[str, Callable[[], Document]] = {
        "merge": lambda: editing.merge(document, things),
        "delete": lambda: editing.delete(document, things),
        "background": lambda: editing.set_background(document, things),
        "split": lambda: editing.split(document, things, parts),
        "apart": lambda: editing.take_apart(document, things),
        "name": lambda: editing.name(document, things, given.get("category", "")),
        "undo": lambda: document.moved(-1),
        "redo": lambda: document.moved(1),
    }
    if action not in acts:
        raise ValueError(f"cannot {action!r} labels; expected one of keep, restart, {', '.join(acts)}")
    return acts[action]()
