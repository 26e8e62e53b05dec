"""Labels of images on disk, a JSON document for each image.

A document holds masks that never change, and states that list which masks make up which segment. An edit appends a
state and the masks it needs, so that undo is cheap and works after a restart.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from cocanet.config.serialization import from_dict
from cocanet.data.annotations.run_lengths import decode_mask
from cocanet.explore.cache import Cache
from cocanet.files import OUTPUT, hold, is_output, mark_output, read_json, write_atomically, writing
from cocanet.limits import check_image_size

FORMAT, VERSION = "cocanet labels", 1
MAX_STATES = 60
"""States that undo can return to."""
SUFFIX = ".json"
LOCK = ".lock"
EXPORTED = "exported"


class ConflictError(ValueError):
    """The labels changed since the client last read them."""


@dataclass(frozen=True)
class LabelSegment:
    """A segment of an image's labels, an object or the background."""

    id: int
    masks: tuple[int, ...]
    """Which masks of the document it is the union of."""
    level: int
    """The level of the hierarchy whose cluster it is."""
    category: str = ""


@dataclass(frozen=True)
class LabelState:
    """All segments of an image; they cover every pixel."""

    segments: tuple[LabelSegment, ...]
    background: int
    """The id of the background."""
    edit: str
    """The edit that led to this state, in words."""
    refined: bool = False
    """Whether the segments began as refined masks."""

    def segment(self, number: int) -> LabelSegment:
        for segment in self.segments:
            if segment.id == number:
                return segment
        raise ValueError(f"there is no segment {number} here; there are {len(self.segments)} others")


@dataclass(frozen=True)
class LabelDocument:
    """The labels of one image, with the states before and after the current one."""

    image: str
    size: tuple[int, int]
    """Height and width of the image."""
    weights: str
    """The weights whose prediction the labels began with."""
    masks: tuple[str, ...]
    """Masks as COCO's run lengths."""
    states: tuple[LabelState, ...]
    current: int
    """Index of the current state."""
    revision: int
    """The number of edits, undo and redo among them."""

    @property
    def state(self) -> LabelState:
        return self.states[self.current]

    @property
    def objects(self) -> list[LabelSegment]:
        """All segments but the background."""
        return [segment for segment in self.state.segments if segment.id != self.state.background]

    def mask(self, segment: LabelSegment) -> Bool[np.ndarray, "h w"]:
        mask = np.zeros(self.size, dtype=bool)
        for number in segment.masks:
            mask |= self.decode(number)
        return mask

    def labels(self) -> Int[np.ndarray, "h w"]:
        """0 for the background, 1, 2, … for the objects in their order."""
        labels = np.zeros(self.size, dtype=np.int32)
        for label, segment in enumerate(self.objects, 1):
            for number in segment.masks:
                labels[self.decode(number)] = label
        return labels

    def with_state(self, state: LabelState, masks: Sequence[str] = ()) -> LabelDocument:
        """The document after an edit; states that were undone are dropped."""
        states = (*self.states[: self.current + 1], state)[-MAX_STATES:]
        edited = replace(
            self,
            masks=(*self.masks, *masks),
            states=states,
            current=len(states) - 1,
            revision=self.revision + 1,
        )
        return _without_unused_masks(edited)

    def moved(self, steps: int) -> LabelDocument:
        """The document some states back or forward."""
        current = self.current + steps
        if not 0 <= current < len(self.states):
            raise ValueError("there is nothing to undo" if steps < 0 else "there is nothing to redo")
        return replace(self, current=current, revision=self.revision + 1)

    def decode(self, number: int) -> Bool[np.ndarray, "h w"]:
        """One of the masks."""
        return decode_mask({"size": self.size, "counts": self.masks[number]})


def _without_unused_masks(document: LabelDocument) -> LabelDocument:
    """Drop the masks that no remaining state uses."""
    used = sorted({number for state in document.states for segment in state.segments for number in segment.masks})
    if len(used) == len(document.masks):
        return document
    place = {number: index for index, number in enumerate(used)}

    def renumbered(segment: LabelSegment) -> LabelSegment:
        return replace(segment, masks=tuple(place[number] for number in segment.masks))

    states = tuple(replace(state, segments=tuple(map(renumbered, state.segments))) for state in document.states)
    return replace(document, masks=tuple(document.masks[number] for number in used), states=states)


def write_document(path: Path, document: LabelDocument) -> None:
    """Write a document atomically."""
    content = json.loads(json.dumps({"format": FORMAT, "version": VERSION} | asdict(document)))
    content["sha256"] = _digest(content)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, [json.dumps(content).encode(), b"\n"])


def read_document(path: Path) -> LabelDocument | None:
    """A document, None if there is no file; ValueError for a file that this version did not write."""
    try:
        content = read_json(path)
    except FileNotFoundError:
        return None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f'{path} holds no labels: expected "format": "{FORMAT}"; it is left as it is')
    if content.get("version") != VERSION:
        raise ValueError(
            f"{path} has labels of version {content.get('version')!r}; this cocanet reads version {VERSION}, "
            "so it is left as it is"
        )
    recorded = content.pop("sha256", None)
    if recorded != _digest(content):
        raise ValueError(f"{path} was edited by another program: its sha256 does not match; it is left as it is")
    fields = {name: value for name, value in content.items() if name not in ("format", "version")}
    document = from_dict(LabelDocument, fields, str(path))
    try:
        _check(document)
    except (ValueError, IndexError, OverflowError) as error:
        raise ValueError(f"{path} is inconsistent ({error}); it is left as it is") from None
    return document


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _check(document: LabelDocument) -> None:
    """Every mask has the image's size, and every state's segments exist and cover the image."""
    height, width = document.size
    check_image_size(width, height)
    if min(height, width) < 1 or not 0 <= document.current < len(document.states) <= MAX_STATES:
        raise ValueError(f"{height}×{width} pixels, state {document.current} of {len(document.states)}")
    masks = [document.decode(number) for number in range(len(document.masks))]
    for state in document.states:
        state.segment(state.background)
        numbers = sorted({number for segment in state.segments for number in segment.masks})
        if numbers and not 0 <= numbers[0] <= numbers[-1] < len(masks):
            raise ValueError(f"a segment of mask {numbers[-1]} of {len(masks)}")
    if not np.logical_or.reduce([masks[number] for one in document.state.segments for number in one.masks]).all():
        raise ValueError("its segments do not cover the image")


class LabelFolder:
    """The documents of all images, by the images' names. An edit is on disk before it is answered."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._documents: Cache[LabelDocument | None] = Cache(64)
        self._names = self._find()
        self._categories: set[str] | None = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other servers out of the folder, where it can be written at all."""
        with ExitStack() as stack:
            with suppress(OSError):
                self.folder.mkdir(parents=True, exist_ok=True)
                mark_output(self.folder)
                stack.enter_context(hold(self.folder / LOCK, "is being edited"))
            self._names = self._find()
            yield
        with suppress(OSError):
            if [file.name for file in self.folder.iterdir()] == [OUTPUT]:
                (self.folder / OUTPUT).unlink()
                self.folder.rmdir()

    def _find(self) -> set[str]:
        """Names of the images that have documents."""
        files = self.folder.rglob(f"*{SUFFIX}") if self.folder.is_dir() else ()
        labels = (file.relative_to(self.folder) for file in files if not _is_export(file, self.folder))
        return {file.as_posix().removesuffix(SUFFIX) for file in labels}

    def path(self, name: str) -> Path:
        return self.folder / f"{name}{SUFFIX}"

    @property
    def names(self) -> set[str]:
        """Names of the labelled images."""
        with self._lock:
            return set(self._names)

    def read(self, name: str) -> LabelDocument | None:
        """The labels of an image, None if it has none; ValueError for a file that this version did not write."""
        path = self.path(name)
        try:
            status = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return self._documents.get((name, status.st_mtime_ns, status.st_ino), lambda: read_document(path))

    def edit(self, name: str, revision: int, make: Callable[[LabelDocument | None], LabelDocument]) -> LabelDocument:
        """Write what `make` returns for the current labels, if they still have this revision (0 for no labels)."""
        with self._lock:
            before = self.read(name)
            if revision != (0 if before is None else before.revision):
                raise ConflictError("these labels were changed in another window; they are shown as they are now")
            document = make(before)
            write_document(self.path(name), document)
            if not is_output(self.folder):
                mark_output(self.folder)
            self._names.add(name)
            if self._categories is not None:
                self._categories |= _categories(document)
        return document

    def categories(self) -> list[str]:
        """Categories in use, of all documents that can be read."""
        if self._categories is None:
            found: set[str] = set()
            for name in sorted(self.names):
                try:
                    document = read_document(self.path(name))
                except (ValueError, OSError):
                    continue
                found |= _categories(document) if document else set()
            with self._lock:
                self._categories = found
        return sorted(self._categories, key=str.casefold)


def _is_export(file: Path, folder: Path) -> bool:
    """Whether a file is an export; labels of images in a folder of that name are none."""
    if file.relative_to(folder).parts[0] != EXPORTED:
        return False
    with suppress(OSError), file.open("rb") as opened:
        return not opened.read(64).startswith(json.dumps({"format": FORMAT})[:-1].encode())
    return False


def _categories(document: LabelDocument) -> set[str]:
    return {segment.category for segment in document.state.segments if segment.category}
