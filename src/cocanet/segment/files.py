"""Image files in, a folder of results out, with bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from jaxtyping import UInt8

from cocanet.files import existing_parent, writing
from cocanet.segment.base import AnySegmenter
from cocanet.segment.coco import AnnotationFile
from cocanet.segment.drawing import Tile, draw_contact_sheet
from cocanet.segment.labelling import Found, segmentation
from cocanet.segment.paths import Failure, Inputs, output_names
from cocanet.segment.settings import OutputSettings, SegmentSettings
from cocanet.segment.writers import Written, save_bytes, write, write_results

T = TypeVar("T")

WRITERS = 4
PIXELS_AT_A_TIME = 2**24
"""Pixels of the images that are read ahead, and of those being written; one image may have more."""


class Picture(NamedTuple):
    """An image that was read."""

    path: Path
    name: str
    pixels: UInt8[np.ndarray, "h w 3"]


def check_output(output: OutputSettings) -> None:
    """The folder for the results can be made, and nothing is in it that must not be written over."""
    there = existing_parent(output.out)
    if not there.is_dir():
        which = "" if there == output.out.absolute() else f"cannot write to {output.out}: "
        raise ValueError(f"{which}{there} is not a folder")
    if not output.overwrite and output.out.exists() and any(output.out.iterdir()):
        raise ValueError(
            f"{output.out} is not empty; give another folder with --out, or --overwrite to write over what is there"
        )


@dataclass
class Done:
    """What became of a run."""

    images: int = 0
    objects: int = 0
    failures: list[Failure] = field(default_factory=list)
    tiles: list[Tile] = field(default_factory=list)


def segment_files(
    segmenter: AnySegmenter,
    inputs: Inputs,
    output: OutputSettings,
    find: SegmentSettings | None = None,
    *,
    progress: Callable[[int], None] | None = None,
) -> Done:
    """Segment every file: one thread reads a batch ahead, a few write behind.

    `progress` is told, now and then, how many files are behind.
    """
    find = find or SegmentSettings()
    segmenter.check(find)
    check_output(output)
    with writing(output.out):
        output.out.mkdir(parents=True, exist_ok=True)
    title = segmenter.source or segmenter.preset.name
    done = Done(failures=list(inputs.failures))
    info = {"description": "objects found by cocanet", "weights": title, "folder": str(inputs.root)}
    behind: deque[tuple[int, Future[Written]]] = deque()
    total = len(inputs.files)
    with (
        AnnotationFile(output.out / "objects.json", info) as file,
        _writing() as writers,
        _saying_where_it_stopped(done, total, output.out),
    ):

        def collect(limit: int) -> None:
            """Take what is written, in order, and wait until at most `limit` pixels are left to write."""
            while behind and (behind[0][1].done() or sum(pixels for pixels, _ in behind) > limit):
                _take(behind.popleft()[1].result(), file, done)
                if progress is not None:
                    progress(done.images + len(done.failures))

        for batch in one_ahead(read_batches(inputs, output.batch, done.failures)):
            found = segmenter.find([picture.pixels for picture in batch], find)
            for picture, result in zip(batch, found, strict=True):
                collect(PIXELS_AT_A_TIME)
                number = done.images + len(behind) + 1
                job = writers.submit(_finish, picture, result, inputs, output, find, number)
                behind.append((result.pixels[..., 0].size, job))
        collect(-1)
    if done.tiles:
        sheet = draw_contact_sheet(done.tiles, f"{Path(title).stem}: {len(done.tiles)} of {done.images:,} images")
        write(output.out / "sheet.png", save_bytes(sheet, format="PNG"))
    return done


def read_batches(inputs: Inputs, size: int, failures: list[Failure]) -> Iterator[list[Picture]]:
    """Batches of images that can be read; of fewer than `size` where they are large. The others are noted."""
    batch, pixels = list[Picture](), 0
    names = output_names(map(inputs.relative, inputs.files))
    for path, name in zip(inputs.files, names, strict=True):
        try:
            picture = Picture(path, name, inputs.read(path))
        except (ValueError, OSError) as error:
            failures.append(Failure(path, str(error).removeprefix(f"{path}: ")))
            continue
        if batch and (len(batch) == size or pixels + picture.pixels[..., 0].size > PIXELS_AT_A_TIME):
            yield batch
            batch, pixels = [], 0
        batch.append(picture)
        pixels += picture.pixels[..., 0].size
    if batch:
        yield batch


def one_ahead(items: Iterator[T]) -> Iterator[T]:
    """The same items, each made in a thread while the one before is in use."""
    with ThreadPoolExecutor(1, "reader") as thread:
        pending = thread.submit(next, items, None)
        while (item := pending.result()) is not None:
            pending = thread.submit(next, items, None)
            yield item


def _finish(
    picture: Picture, result: Found, inputs: Inputs, output: OutputSettings, find: SegmentSettings, number: int
) -> Written:
    found = segmentation(result, find)
    file_name = inputs.relative(picture.path).as_posix()
    return write_results(
        output.out,
        picture.name,
        file_name,
        found,
        number,
        keep_background=output.keep_background,
        tile=number <= output.sheet,
    )


def _take(written: Written, file: AnnotationFile, done: Done) -> None:
    file.add(written.image, written.annotations)
    done.images += 1
    done.objects += sum(not entry["background"] for entry in written.annotations)
    if written.tile:
        done.tiles.append(written.tile)


@contextmanager
def _writing() -> Iterator[ThreadPoolExecutor]:
    pool = ThreadPoolExecutor(WRITERS, "writer")
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _saying_where_it_stopped(done: Done, total: int, out: Path) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"stopped, {out} keeps the files about {done.images:,} of {total:,} images, but no objects.json"
        ) from None
