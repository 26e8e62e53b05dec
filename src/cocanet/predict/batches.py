"""From images to results, one batch at a time.

A batch is a fixed range of the inputs. So results depend neither on the number of workers nor on interruptions, to
the byte. (The last bits of a number can depend on the images in its batch and on the number of threads.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from jaxtyping import UInt8

from cocanet.predict.base_segmenter import BaseSegmenter
from cocanet.predict.image_sources import ImageSource
from cocanet.predict.inputs import Inputs, output_names, read_input
from cocanet.predict.prediction import RawPrediction, Segmentation
from cocanet.predict.segment_settings import SegmentSettings

T = TypeVar("T")

THREADS = 4
MAX_WAITING = 64
"""Images in the hands of the threads that label and encode, at most."""
MAX_PIXELS = 2**24
"""Pixels of the images that are read ahead, and of those being labelled and encoded; one image may have more."""


class Item(NamedTuple):
    """One input image."""

    number: int
    """Its index among the inputs, from 0."""
    path: Path
    name: str
    """Name of its output files."""
    file_name: str


class LoadedImage(NamedTuple):
    """The pixels of an item, or why it could not be read."""

    item: Item
    pixels: UInt8[np.ndarray, "h w 3"] | None
    error: str | None = None


class Outcome(NamedTuple):
    """The result of an item."""

    item: Item
    result: Any
    """What `Encode` returned; None for an image that could not be read."""
    error: str | None = None


Encode = Callable[[Item, Segmentation], Any]
"""Turns a segmentation into what is written. Workers receive it by pickle."""


def batches(inputs: Inputs, size: int, start: int = 0) -> Iterator[list[Item]]:
    """The inputs from `start` on, in the batches of a run from the beginning."""
    names = output_names(map(inputs.relative, inputs.files))
    for first in range(start - start % size, len(inputs.files), size):
        yield [
            Item(number, inputs.files[number], names[number], inputs.relative(inputs.files[number]).as_posix())
            for number in range(max(first, start), min(first + size, len(inputs.files)))
        ]


def read_batches(items: Iterable[list[Item]], sources: Mapping[Path, ImageSource]) -> Iterator[list[LoadedImage]]:
    """Read batches of images; a batch of large images comes in several parts."""
    for batch in items:
        images, pixels = list[LoadedImage](), 0
        for item in batch:
            image = _read(item, sources)
            if images and pixels + _pixels(image) > MAX_PIXELS:
                yield images
                images, pixels = [], 0
            images.append(image)
            pixels += _pixels(image)
        yield images


def segment_batch(
    segmenter: BaseSegmenter,
    batch: list[Item],
    sources: Mapping[Path, ImageSource],
    settings: SegmentSettings,
    encode: Encode,
) -> list[Outcome]:
    """Segment one batch in the calling thread, as workers do."""
    return [
        _finish(segmenter, image, raw, settings, encode)
        for images in read_batches([batch], sources)
        for image, raw in _predict(segmenter, images, settings)
    ]


def segment_here(
    segmenter: BaseSegmenter,
    items: Iterable[list[Item]],
    sources: Mapping[Path, ImageSource],
    settings: SegmentSettings,
    encode: Encode,
) -> Generator[Outcome, None, None]:
    """Segment all batches in this process, in order. One thread reads ahead, a few label and encode."""
    waiting: deque[tuple[int, Future[Outcome]]] = deque()
    pool = ThreadPoolExecutor(THREADS, "finisher")
    try:
        for images in one_ahead(read_batches(items, sources)):
            for image, raw in _predict(segmenter, images, settings):
                while waiting and (waiting[0][1].done() or _too_much(waiting)):
                    yield waiting.popleft()[1].result()
                waiting.append((_pixels(image), pool.submit(_finish, segmenter, image, raw, settings, encode)))
        while waiting:
            yield waiting.popleft()[1].result()
    finally:
        pool.shutdown(cancel_futures=True)


def one_ahead(items: Iterator[T]) -> Iterator[T]:
    """The same items; a thread prepares the next one while the caller uses the current one."""
    with ThreadPoolExecutor(1, "reader") as thread:
        pending = thread.submit(next, items, None)
        while (item := pending.result()) is not None:
            pending = thread.submit(next, items, None)
            yield item


def _read(item: Item, sources: Mapping[Path, ImageSource]) -> LoadedImage:
    try:
        return LoadedImage(item, read_input(item.path, sources))
    except (ValueError, OSError) as error:
        return LoadedImage(item, None, str(error).removeprefix(f"{item.path}: "))


def _pixels(image: LoadedImage) -> int:
    return 0 if image.pixels is None else image.pixels[..., 0].size


def _predict(
    segmenter: BaseSegmenter, images: list[LoadedImage], settings: SegmentSettings
) -> Iterator[tuple[LoadedImage, RawPrediction | None]]:
    readable = [image.pixels for image in images if image.pixels is not None]
    predictions = iter(segmenter.predict(readable, settings) if readable else [])
    for image in images:
        yield image, None if image.pixels is None else next(predictions)


def _finish(
    segmenter: BaseSegmenter, image: LoadedImage, raw: RawPrediction | None, settings: SegmentSettings, encode: Encode
) -> Outcome:
    if image.pixels is None or raw is None:
        return Outcome(image.item, None, image.error)
    return Outcome(image.item, encode(image.item, segmenter.label(image.pixels, raw, settings)))


def _too_much(waiting: deque[tuple[int, Future[Outcome]]]) -> bool:
    return len(waiting) > MAX_WAITING or sum(size for size, _ in waiting) > MAX_PIXELS
