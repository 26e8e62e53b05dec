"""What `coca segment` does: files in, a folder of results out, with bounded memory."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from jaxtyping import UInt8
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from cocanet.data.readers.images import read_image
from cocanet.files import check_folder_writable, write_atomically
from cocanet.segment.coco import AnnotationFile
from cocanet.segment.drawing import Tile, draw_contact_sheet
from cocanet.segment.labelling import Found, segmentation
from cocanet.segment.paths import Failure, Inputs, find_images, output_names
from cocanet.segment.segmenter import Segmenter, Settings, load
from cocanet.segment.writers import Written, save_bytes, write_results
from cocanet.weights.trained import Checkpoint
from cocanet.words import plural

T = TypeVar("T")

WRITERS = 4
PIXELS_AT_A_TIME = 2**24
"""Pixels of the images that are read ahead, and of those being written; one image may have more."""


@dataclass(frozen=True)
class Plan:
    """Where results go, and which."""

    out: Path
    settings: Settings = field(default_factory=Settings)
    batch: int = 16
    sheet: int = 24
    """Images on the contact sheet; none for 0."""
    keep_background: bool = False
    """Whether the background gets an annotation too."""

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ValueError(f"a batch needs at least one image; got {self.batch}")
        if self.sheet < 0:
            raise ValueError(f"sheet must be 0 or more images; got {self.sheet}")


class Picture(NamedTuple):
    """An image that was read."""

    path: Path
    name: str
    pixels: UInt8[np.ndarray, "h w 3"]


def segment_files(
    weights: str,
    paths: list[str],
    plan: Plan,
    *,
    device: str = "cpu",
    checkpoint: Checkpoint = "last",
    overwrite: bool = False,
) -> int:
    """Segment images into a folder and say how it went; returns the exit code, 1 if a file could not be read."""
    _check_output(plan.out, overwrite)
    inputs = find_images(paths, plan.out)
    segmenter = load(weights, device, checkpoint=checkpoint)
    segmenter.check(plan.settings)
    start = time.perf_counter()
    done = run(segmenter, inputs, plan, title=weights)
    print(
        f"{plan.out}: {plural(done.objects, 'object')} in {plural(done.images, 'image')}, "
        f"{done.images / (time.perf_counter() - start):.1f} images/s"
    )
    if done.failures:
        print(f"coca: {len(done.failures)} of {len(inputs.files)} files could not be read:", file=sys.stderr)
        for failure in done.failures:
            print(f"  {failure.path}: {failure.reason}", file=sys.stderr)
    return 1 if done.failures else 0


@dataclass
class Done:
    """What became of a run."""

    images: int = 0
    objects: int = 0
    failures: list[Failure] = field(default_factory=list)
    tiles: list[Tile] = field(default_factory=list)


def run(segmenter: Segmenter, inputs: Inputs, plan: Plan, title: str = "") -> Done:
    """Segment every file: one thread reads a batch ahead, a few write behind."""
    plan.out.mkdir(parents=True, exist_ok=True)
    done = Done(failures=list(inputs.failures))
    info = {"description": "objects found by cocanet", "weights": title, "folder": str(inputs.root)}
    behind: deque[tuple[int, Future[Written]]] = deque()
    total = len(inputs.files)
    with (
        AnnotationFile(plan.out / "objects.json", info) as file,
        _writing() as writers,
        _progress(total) as progress,
        _saying_where_it_stopped(done, total, plan.out),
    ):

        def collect(limit: int) -> None:
            """Take what is written, in order, and wait until at most `limit` pixels are left to write."""
            while behind and (behind[0][1].done() or sum(pixels for pixels, _ in behind) > limit):
                _take(behind.popleft()[1].result(), file, done)
                progress.update(done.images + len(done.failures))

        for batch in one_ahead(read_batches(inputs, plan.batch, done.failures)):
            found = segmenter.find([picture.pixels for picture in batch], plan.settings)
            for picture, result in zip(batch, found, strict=True):
                collect(PIXELS_AT_A_TIME)
                number = done.images + len(behind) + 1
                job = writers.submit(_finish, picture, result, inputs, plan, number)
                behind.append((result.pixels[..., 0].size, job))
        collect(-1)
    if done.tiles:
        sheet = draw_contact_sheet(done.tiles, f"{Path(title).stem}: {len(done.tiles)} of {done.images:,} images")
        write_atomically(plan.out / "sheet.png", [save_bytes(sheet, format="PNG")])
    return done


def read_batches(inputs: Inputs, size: int, failures: list[Failure]) -> Iterator[list[Picture]]:
    """Batches of images that can be read; of fewer than `size` where they are large. The others are noted."""
    batch, pixels = list[Picture](), 0
    names = output_names(map(inputs.relative, inputs.files))
    for path, name in zip(inputs.files, names, strict=True):
        try:
            picture = Picture(path, name, read_image(path, upright=True))
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


def _finish(picture: Picture, result: Found, inputs: Inputs, plan: Plan, number: int) -> Written:
    found = segmentation(result, min_area=plan.settings.min_area)
    file_name = inputs.relative(picture.path).as_posix()
    return write_results(
        plan.out,
        picture.name,
        file_name,
        found,
        number,
        keep_background=plan.keep_background,
        tile=number <= plan.sheet,
    )


def _take(written: Written, file: AnnotationFile, done: Done) -> None:
    file.add(written.image, written.annotations)
    done.images += 1
    done.objects += sum(not entry["background"] for entry in written.annotations)
    if written.tile:
        done.tiles.append(written.tile)


def _check_output(out: Path, overwrite: bool) -> None:
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is not a folder")
    if not overwrite and out.exists() and any(out.iterdir()):
        raise ValueError(f"{out} is not empty; give another folder, or --overwrite to write over what is there")
    check_folder_writable(out)


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


class _Reporter(Protocol):
    def update(self, completed: int) -> None: ...


class _Lines:
    """A line every ten seconds, where there is no terminal."""

    def __init__(self, total: int) -> None:
        self.total, self.last = total, time.monotonic()

    def update(self, completed: int) -> None:
        if time.monotonic() - self.last >= 10:
            print(f"{completed:,} of {self.total:,} images", flush=True)
            self.last = time.monotonic()


class _Bar:
    def __init__(self, progress: Progress, total: int) -> None:
        self.progress, self.task = progress, progress.add_task("segmenting", total=total)

    def update(self, completed: int) -> None:
        self.progress.update(self.task, completed=completed)


@contextmanager
def _progress(total: int) -> Iterator[_Reporter]:
    console = Console()
    if not console.is_terminal:
        yield _Lines(total)
        return
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console) as progress:
        yield _Bar(progress, total)
