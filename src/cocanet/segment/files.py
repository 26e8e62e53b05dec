"""Image files in, a folder of results out, with bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from PIL import Image

from cocanet.files import locked, writing
from cocanet.segment.base import AnySegmenter
from cocanet.segment.batches import EncodeFiles, Outcome, batches, segment_here
from cocanet.segment.coco import AnnotationFile
from cocanet.segment.drawing import Tile, draw_contact_sheet, draw_overlay, make_tile
from cocanet.segment.paths import Failure, Inputs
from cocanet.segment.settings import OutputSettings, SegmentSettings
from cocanet.segment.unfinished import Log, check_output, describe
from cocanet.segment.writers import save_bytes, write

WRITERS = 4
WAITING = 64
"""Images whose files are being written, at most."""


@dataclass
class Done:
    """What became of a run; of all its images, also those that were done before it was stopped."""

    images: int = 0
    objects: int = 0
    behind: int = 0
    """Inputs that were looked at, whether they could be read or not."""
    earlier: int = 0
    """How many of them an earlier run had behind it."""
    failures: list[Failure] = field(default_factory=list)


@runtime_checkable
class Sink(Protocol):
    """Where outcomes go, in the order of the inputs."""

    done: Done

    def add(self, outcome: Outcome) -> None: ...

    def finish(self) -> None:
        """All inputs are behind."""

    def close(self) -> None:
        """Whatever happened; what was added is kept where that is possible."""


def segment_files(
    segmenter: AnySegmenter,
    inputs: Inputs,
    output: OutputSettings,
    find: SegmentSettings | None = None,
    *,
    progress: Callable[[int], None] | None = None,
) -> Done:
    """Segment every file in this process; what a run that was stopped left in the folder is not done again.

    `progress` is told, now and then, how many files are behind.
    """
    find = find or SegmentSettings()
    segmenter.check(find)
    check_output(output)
    with opened_folder(output):
        sink = FolderSink(segmenter, inputs, output, find)
        items = batches(inputs, output.batch, sink.done.earlier)
        outcomes = segment_here(segmenter, items, inputs.sources, find, EncodeFiles(output))
        return drain(outcomes, sink, output, len(inputs.files), progress)


def drain(
    outcomes: Generator[Outcome, None, None],
    sink: Sink,
    output: OutputSettings,
    total: int,
    progress: Callable[[int], None] | None = None,
) -> Done:
    """Put all outcomes where they belong; Ctrl-C leaves what the same call goes on with."""
    report = progress or (lambda completed: None)
    report(sink.done.earlier)
    try:
        # Closed at once, whatever happens: workers end with it.
        with closing(outcomes):
            for outcome in outcomes:
                sink.add(outcome)
                report(outcome.item.number + 1)
        sink.finish()
    except KeyboardInterrupt:
        sink.close()
        raise KeyboardInterrupt(
            f"stopped, {output.out} keeps {sink.done.behind:,} of {total:,} images; run the same command to go on"
        ) from None
    finally:
        sink.close()
    return sink.done


@contextmanager
def opened_folder(output: OutputSettings) -> Iterator[None]:
    """Make the folder, and keep other runs out of it."""
    with writing(output.out):
        output.out.mkdir(parents=True, exist_ok=True)
    with locked(output.out):
        yield


class FolderSink:
    """Writes the files about each image, and at the end those about all of them."""

    def __init__(self, segmenter: AnySegmenter, inputs: Inputs, output: OutputSettings, find: SegmentSettings) -> None:
        self.inputs, self.output = inputs, output
        self.title = segmenter.source or segmenter.preset.name
        self.done = Done(failures=list(inputs.failures))
        self.tiles: list[Tile] = []
        self._log = Log(output.out, describe(segmenter, inputs, output, find), fresh=output.overwrite)
        for entry in self._log.entries():
            if "image" in entry and self.done.behind < output.sheet:
                self.tiles += self._tile_again(entry["image"])
            self._count(entry)
        self.done.earlier = self.done.behind
        self._pool = ThreadPoolExecutor(WRITERS, "writer")
        self._waiting: deque[Future[dict[str, Any]]] = deque()

    def add(self, outcome: Outcome) -> None:
        if outcome.result is not None and outcome.result.tile is not None:
            self.tiles.append(outcome.result.tile)
        self._waiting.append(self._pool.submit(_write, self.output.out, outcome))
        self._collect(WAITING)

    def finish(self) -> None:
        self._collect(0)
        info = {"description": "objects found by cocanet", "weights": self.title, "folder": str(self.inputs.root)}
        with AnnotationFile(self.output.out / "objects.json", info) as file:
            for entry in self._log.entries():
                if "image" in entry:
                    number = file.images + 1
                    numbered = [{**annotation, "image_id": number} for annotation in entry["annotations"]]
                    file.add({"id": number, **entry["image"]}, numbered)
        if self.tiles:
            title = f"{Path(self.title).stem}: {len(self.tiles)} of {self.done.images:,} images"
            sheet = draw_contact_sheet(self.tiles, title)
            write(self.output.out / "sheet.png", save_bytes(sheet, format="PNG"))
        self._log.delete()

    def close(self) -> None:
        with suppress(OSError):
            self._collect(0)
        self._pool.shutdown(cancel_futures=True)
        self._log.close()

    def _collect(self, limit: int) -> None:
        """Note what is written, in order, and wait until at most `limit` images are not."""
        while self._waiting and (self._waiting[0].done() or len(self._waiting) > limit):
            entry = self._waiting.popleft().result()
            self._log.add(entry)
            self._count(entry)

    def _count(self, entry: dict[str, Any]) -> None:
        self.done.behind += 1
        if "image" in entry:
            self.done.images += 1
            self.done.objects += sum(not annotation["background"] for annotation in entry["annotations"])
        else:
            self.done.failures.append(Failure(self.inputs.files[self.done.behind - 1], entry["error"]))

    def _tile_again(self, image: dict[str, Any]) -> list[Tile]:
        """The tile of an image that was done before the run was stopped; none if it is no longer there."""
        try:
            pixels = self.inputs.read(self.inputs.files[self.done.behind])
            labels = np.asarray(Image.open(self.output.out / image["labels"]))
            return [make_tile(image["file_name"], pixels, draw_overlay(pixels, labels))]
        except (ValueError, OSError):
            return []


def _write(out: Path, outcome: Outcome) -> dict[str, Any]:
    """Write an image's files; the line about it."""
    if outcome.result is None:
        return {"file_name": outcome.item.file_name, "error": outcome.error}
    for place, content in outcome.result.contents.items():
        write(out / place, content)
    return {"image": outcome.result.image, "annotations": outcome.result.annotations}
