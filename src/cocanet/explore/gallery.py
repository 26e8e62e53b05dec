"""Images to choose from: those of folders, scenes that are made as they are asked for, and those that were dropped."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from cocanet.data.sample import Source
from cocanet.explore.memo import Memo
from cocanet.files import write_atomically, writing
from cocanet.segment.images import read_pixels
from cocanet.segment.paths import Inputs
from cocanet.segment.writers import save_bytes

MOST_PIXELS = 50_000_000
"""Images of more are refused before they are decoded."""
MOST_BYTES = 64 * 2**20
"""Of an image that is dropped."""
HELD_BYTES = 256 * 2**20
"""Pixels of dropped images that are held without being labelled."""
DROPPED = "dropped"


class NotThereError(LookupError):
    """Something was asked for that the server does not have."""


class Entry(NamedTuple):
    """An image by a key that says nothing about where it lies, and by its name."""

    key: str
    name: str

    @classmethod
    def of(cls, name: str) -> Entry:
        return cls(hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:16], name)


@runtime_checkable
class Gallery(Protocol):
    """A fixed list of images."""

    title: str

    @property
    def entries(self) -> Sequence[Entry]: ...

    def read(self, key: str) -> UInt8[np.ndarray, "h w 3"]: ...


class FolderGallery:
    """The images of files, folders and stores."""

    def __init__(self, inputs: Inputs, away: Path) -> None:
        """What lies in the folder `away`, where labels go, is not of the gallery."""
        self.title, self._inputs = str(inputs.root), inputs
        files = [file for file in inputs.files if not file.is_relative_to(away)]
        if not files:
            raise ValueError(f"no images in {inputs.root} but those in {away}")
        self.entries = [Entry.of(inputs.relative(file).as_posix()) for file in files]
        self._files = {entry.key: file for entry, file in zip(self.entries, files, strict=True)}

    def read(self, key: str) -> UInt8[np.ndarray, "h w 3"]:
        if key not in self._files:
            raise NotThereError(f"there is no image {key}")
        return self._inputs.read(self._files[key], MOST_PIXELS)


class SceneGallery:
    """Scenes of a generator. One thread makes them all: a renderer belongs to the thread that began with it."""

    _thread = ThreadPoolExecutor(1, "scenes")

    def __init__(self, name: str, seed: int, count: int, make: Callable[[], Source]) -> None:
        self.title, self._make = f"fresh scenes of {name}", make
        self._source: Source | None = None
        self.entries = [Entry.of(f"{name}-{seed}-{index:06d}.png") for index in range(count)]
        self._numbers = {entry.key: index for index, entry in enumerate(self.entries)}

    def read(self, key: str) -> UInt8[np.ndarray, "h w 3"]:
        if key not in self._numbers:
            raise NotThereError(f"there is no scene {key}")
        return self._thread.submit(self._scene, self._numbers[key]).result()

    def _scene(self, index: int) -> UInt8[np.ndarray, "h w 3"]:
        if self._source is None:
            self._source = self._make()
        return self._source[index].image


class Dropped:
    """Images that came from a browser: the latest are held, those with labels lie in a folder."""

    title = DROPPED

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._held: Memo[np.ndarray] = Memo(64, HELD_BYTES, lambda pixels: pixels.nbytes)
        there = sorted(folder.glob("*.png")) if folder.is_dir() else []
        self._kept = {Entry.of(f"{DROPPED}/{file.name}").key: file for file in there}
        self._names: dict[str, str] = {}

    @property
    def entries(self) -> list[Entry]:
        """Those that are kept; what is only held is its browser's own business."""
        with self._lock:
            return [Entry(key, f"{DROPPED}/{file.name}") for key, file in self._kept.items()]

    def name(self, key: str) -> str | None:
        with self._lock:
            kept = self._kept.get(key)
            return self._names.get(key) if kept is None else f"{DROPPED}/{kept.name}"

    def add(self, data: bytes, name: str) -> Entry:
        """Decode an image; ValueError if it is none, or too large."""
        pixels = read_pixels(data, MOST_PIXELS)
        stem = re.sub(r"[^\w-]+", "-", Path(name.replace("\\", "/")).stem, flags=re.ASCII).strip("-")[:40] or "image"
        digest = hashlib.sha256(str(pixels.shape).encode() + pixels.tobytes()).hexdigest()[:8]
        entry = Entry.of(f"{DROPPED}/{stem}-{digest}.png")
        with self._lock:
            self._names[entry.key] = entry.name
            for old in list(self._names)[: -4 * 64]:
                del self._names[old]
        self._held.get(entry.key, lambda: pixels)
        return entry

    def keep(self, key: str) -> None:
        """Write an image to the folder, if it is not there yet."""
        with self._lock:
            if key in self._kept:
                return
        pixels, name = self.read(key), self.name(key)
        assert name is not None
        file = self._folder / Path(name).name
        with writing(file):
            self._folder.mkdir(parents=True, exist_ok=True)
            write_atomically(file, [save_bytes(Image.fromarray(pixels), format="PNG")])
        with self._lock:
            self._kept[key] = file

    def read(self, key: str) -> UInt8[np.ndarray, "h w 3"]:
        with self._lock:
            file = self._kept.get(key)
        if file is not None:
            return read_pixels(file, MOST_PIXELS)
        held = self._held.peek(key)
        if held is None:
            raise NotThereError("this dropped image is no longer held; drop it again")
        return held
