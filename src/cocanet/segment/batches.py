"""From images to what is written about them, a batch at a time.

A batch is a stretch of the inputs, whoever does it and whatever was done before: the bytes that come out depend
neither on the number of workers nor on how often a run was stopped. (The last bits of a number may depend on which
images share a batch, and on how many threads share the arithmetic.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from jaxtyping import UInt8

from cocanet.segment.base import AnySegmenter
from cocanet.segment.labelling import Found, segmentation
from cocanet.segment.paths import Inputs, output_names, read_pixels
from cocanet.segment.result import Segmentation
from cocanet.segment.settings import OutputSettings, SegmentSettings
from cocanet.segment.sources import Images
from cocanet.segment.writers import encode_results

T = TypeVar("T")

THREADS = 4
WAITING = 64
"""Images that are being finished, at most."""
PIXELS_AT_A_TIME = 2**24
"""Pixels of the images that are read ahead, and of those being finished; one image may have more."""


class Item(NamedTuple):
    """An image that was asked for."""

    number: int
    """Its place among the inputs, from 0."""
    path: Path
    name: str
    """What its own files are called."""
    file_name: str


class Picture(NamedTuple):
    """An item that was read, or why it was not."""

    item: Item
    pixels: UInt8[np.ndarray, "h w 3"] | None
    error: str | None = None


class Outcome(NamedTuple):
    """What became of an item."""

    item: Item
    result: Any
    """What `Encode` made of it, None where it could not be read."""
    error: str | None = None


Encode = Callable[[Item, Segmentation], Any]
"""Makes what is written about an image; it goes to workers, so it can be pickled."""


@dataclass(frozen=True)
class EncodeFiles:
    """A label map, an overlay and slot vectors for each image."""

    output: OutputSettings

    def __call__(self, item: Item, found: Segmentation) -> Any:
        keep, tile = self.output.keep_background, item.number < self.output.sheet
        return encode_results(item.name, item.file_name, found, keep_background=keep, tile=tile)


def batches(inputs: Inputs, size: int, start: int = 0) -> Iterator[list[Item]]:
    """The inputs from `start` on, cut where a run from the beginning cuts them."""
    names = output_names(map(inputs.relative, inputs.files))
    for first in range(start - start % size, len(inputs.files), size):
        stretch = range(max(first, start), min(first + size, len(inputs.files)))
        yield [
            Item(number, inputs.files[number], names[number], inputs.relative(inputs.files[number]).as_posix())
            for number in stretch
        ]


def read_batches(items: Iterable[list[Item]], sources: Mapping[Path, Images]) -> Iterator[list[Picture]]:
    """Batches of images, read; in several pieces where they are large."""
    for batch in items:
        pictures, pixels = list[Picture](), 0
        for item in batch:
            picture = _read(item, sources)
            more = 0 if picture.pixels is None else picture.pixels[..., 0].size
            if pictures and pixels + more > PIXELS_AT_A_TIME:
                yield pictures
                pictures, pixels = [], 0
            pictures.append(picture)
            pixels += more
        yield pictures


def segment_batch(
    segmenter: AnySegmenter, batch: list[Item], sources: Mapping[Path, Images], find: SegmentSettings, encode: Encode
) -> list[Outcome]:
    """Do one batch, one thing after the other: what a worker does."""
    done = []
    for pictures in read_batches([batch], sources):
        for picture, found in _find(segmenter, pictures, find):
            done.append(_finish(picture, found, find, encode))
    return done


def segment_here(
    segmenter: AnySegmenter,
    items: Iterable[list[Item]],
    sources: Mapping[Path, Images],
    find: SegmentSettings,
    encode: Encode,
) -> Generator[Outcome, None, None]:
    """Do all batches in this process: one thread reads a batch ahead, a few finish behind. In order."""
    behind: deque[tuple[int, Future[Outcome]]] = deque()
    with _threads() as pool:
        for pictures in one_ahead(read_batches(items, sources)):
            for picture, found in _find(segmenter, pictures, find):
                while behind and (behind[0][1].done() or _too_much(behind)):
                    yield behind.popleft()[1].result()
                size = 0 if picture.pixels is None else picture.pixels[..., 0].size
                behind.append((size, pool.submit(_finish, picture, found, find, encode)))
        while behind:
            yield behind.popleft()[1].result()


def one_ahead(items: Iterator[T]) -> Iterator[T]:
    """The same items, each made in a thread while the one before is in use."""
    with ThreadPoolExecutor(1, "reader") as thread:
        pending = thread.submit(next, items, None)
        while (item := pending.result()) is not None:
            pending = thread.submit(next, items, None)
            yield item


def _read(item: Item, sources: Mapping[Path, Images]) -> Picture:
    try:
        return Picture(item, read_pixels(item.path, sources))
    except (ValueError, OSError) as error:
        return Picture(item, None, str(error).removeprefix(f"{item.path}: "))


def _find(
    segmenter: AnySegmenter, pictures: list[Picture], find: SegmentSettings
) -> Iterator[tuple[Picture, Found | None]]:
    readable = [picture.pixels for picture in pictures if picture.pixels is not None]
    found = iter(segmenter.find(readable, find) if readable else [])
    for picture in pictures:
        yield picture, None if picture.pixels is None else next(found)


def _finish(picture: Picture, found: Found | None, find: SegmentSettings, encode: Encode) -> Outcome:
    if found is None:
        return Outcome(picture.item, None, picture.error)
    return Outcome(picture.item, encode(picture.item, segmentation(found, find)))


def _too_much(behind: deque[tuple[int, Future[Outcome]]]) -> bool:
    return len(behind) > WAITING or sum(size for size, _ in behind) > PIXELS_AT_A_TIME


@contextmanager
def _threads() -> Iterator[ThreadPoolExecutor]:
    pool = ThreadPoolExecutor(THREADS, "finisher")
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
