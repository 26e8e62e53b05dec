"""The images of the page: of folders and stores, generated scenes, and images dropped on the page."""

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
from cocanet.explore.cache import Cache
from cocanet.files import write_atomically, writing
from cocanet.predict.images import read_pixels
from cocanet.predict.inputs import Inputs
from cocanet.predict.writers import save_bytes
from cocanet.words import readable

MAX_DROPPED, MAX_DROPPED_BYTES = 64, 256 * 2**20
"""Dropped images without labels that stay in memory, and their pixels."""
DROPPED = "dropped"


class NotFoundError(LookupError):
    """The server has no such model or image."""


class GalleryEntry(NamedTuple):
    """An image by its name, and by a key that does not reveal its path."""

    key: str
    name: str

    @property
    def shown(self) -> str:
        """The name as text."""
        return readable(self.name)

    @classmethod
    def of(cls, name: str) -> GalleryEntry:
        return cls(hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:16], name)


@runtime_checkable
class Gallery(Protocol):
    """A fixed list of images."""

    title: str

    @property
    def entries(self) -> Sequence[GalleryEntry]: ...

    def read(self, key: str) -> UInt8[np.ndarray, "h w 3"]: ...


class FolderGallery:
    """The images of files, folders and stores, except those below the folder of labels."""

    def __init__(self, inputs: Inputs, labels: Path) -> None:
        self.title, self._inputs = str(inputs.root), inputs
        files = [file for file in inputs.files if not file.is_relative_to(labels)]
        if not files:
            raise ValueError(f"no images in {inputs.root} but those in {labels}")
        self.entries = [GalleryEntry.of(inputs.relative(file).as_posix()) for file in files]
        self._files = {entry.key: file for entry, file in zip(self.entries, files, strict=True)}

    def read(self, key: str) -> UInt8[np.ndarray, "h w 3"]:
        if key not in self._files:
            raise NotFoundError(f"there is no image {key}")
        return self._inputs.read(self._files[key])


class SceneGallery:
    """Generated scenes. One thread makes them all: an OpenGL context belongs to the thread that created it."""

    _thread = ThreadPoolExecutor(1, "scenes")

    def __init__(self, name: str, seed: int, count: int, make: Callable[[], Source]) -> None:
        self.title, self._make = f"new scenes of {name}", make
        self._source: Source | None = None
        self.entries = [GalleryEntry.of(f"{name}-{seed}-{index:06d}.png") for index in range(count)]
        self._numbers = {entry.key: index for index, entry in enumerate(self.entries)}

    def read(self, key: str) -> UInt8[np.ndarray, "h w 3"]:
        if key not in self._numbers:
            raise NotFoundError(f"there is no scene {key}")
        return self._thread.submit(self._scene, self._numbers[key]).result()

    def _scene(self, index: int) -> UInt8[np.ndarray, "h w 3"]:
        if self._source is None:
            self._source = self._make()
        return self._source[index].image


class DroppedImages:
    """Images that browsers sent: labelled ones are files in a folder, the latest others stay in memory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._pixels: Cache[np.ndarray] = Cache(MAX_DROPPED, MAX_DROPPED_BYTES, lambda pixels: pixels.nbytes)
        files = sorted(folder.glob("*.png")) if folder.is_dir() else []
        self._saved = {GalleryEntry.of(f"{DROPPED}/{file.name}").key: file for file in files}
        self._names: dict[str, str] = {}

    @property
    def entries(self) -> list[GalleryEntry]:
        """The saved images."""
        with self._lock:
            return [GalleryEntry(key, f"{DROPPED}/{file.name}") for key, file in self._saved.items()]

    def name(self, key: str) -> str | None:
        with self._lock:
            saved = self._saved.get(key)
            return self._names.get(key) if saved is None else f"{DROPPED}/{saved.name}"

    def add(self, data: bytes, name: str) -> GalleryEntry:
        """Decode an image file; ValueError if it is not an image, or too large."""
        pixels = read_pixels(data)
        stem = re.sub(r"[^\w-]+", "-", Path(name.replace("\\", "/")).stem, flags=re.ASCII).strip("-")[:40] or "image"
        digest = hashlib.sha256(str(pixels.shape).encode())
        digest.update(np.ascontiguousarray(pixels).data)
        entry = GalleryEntry.of(f"{DROPPED}/{stem}-{digest.hexdigest()[:8]}.png")
        with self._lock:
            self._names[entry.key] = entry.name
            for old in list(self._names)[: -4 * MAX_DROPPED]:
                del self._names[old]
        self._pixels.get(entry.key, lambda: pixels)
        return entry

    def save(self, key: str) -> None:
        """Write an image to the folder, unless it is there."""
        with self._lock:
            if key in self._saved:
                return
        pixels, name = self.read(key), self.name(key)
        assert name is not None
        file = self._folder / Path(name).name
        with writing(file):
            self._folder.mkdir(parents=True, exist_ok=True)
            write_atomically(file, [save_bytes(Image.fromarray(pixels), format="PNG")])
        with self._lock:
            self._saved[key] = file

    def read(self, key: str) -> UInt8[np.ndarray, "h w 3"]:
        with self._lock:
            file = self._saved.get(key)
        if file is not None:
            return read_pixels(file)
        pixels = self._pixels.peek(key)
        if pixels is None:
            raise NotFoundError("this dropped image is no longer in memory; drop it again")
        return pixels
