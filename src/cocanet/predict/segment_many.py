"""Segment any number of images into a folder, with bounded memory; an interrupted run resumes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from PIL import Image

from cocanet.extras import extra
from cocanet.files import OUTPUT, locked, mark_output, writing
from cocanet.predict.annotations import finish_annotations
from cocanet.predict.base_segmenter import BaseSegmenter
from cocanet.predict.batches import Encode, Item, Outcome, batches, segment_here
from cocanet.predict.coco import AnnotationFile
from cocanet.predict.drawing import Tile, draw_contact_sheet, draw_overlay, make_tile
from cocanet.predict.inputs import Inputs, ReadFailure
from cocanet.predict.resume_log import ResumeLog, check_output, describe_run
from cocanet.predict.segment_settings import OutputSettings, SegmentSettings, WorkerSettings
from cocanet.predict.workers import Work, segment_by_processes
from cocanet.predict.writers import EncodeFiles, encode_rows, save_bytes, write

WRITERS = 4
MAX_WAITING = 64
"""Images whose files wait to be written, at most."""

Outcomes = Callable[[Iterator[list[Item]]], Generator[Outcome, None, None]]


@dataclass
class RunSummary:
    """Counts over all images of a run, with those that were finished before an interruption."""

    images: int = 0
    objects: int = 0
    finished: int = 0
    """Inputs that were segmented or could not be read."""
    resumed: int = 0
    """How many inputs an earlier run had finished."""
    failures: list[ReadFailure] = field(default_factory=list)


@runtime_checkable
class Sink(Protocol):
    """Writes outcomes, in the order of the inputs."""

    summary: RunSummary

    def add(self, outcome: Outcome) -> None: ...

    def finish(self) -> None:
        """Called after the last outcome."""

    def close(self) -> None:
        """Called at the end of every run, also after an error; keeps what was added."""


def segment_many(
    segmenter: BaseSegmenter,
    inputs: Inputs,
    output: OutputSettings,
    settings: SegmentSettings | None = None,
    workers: WorkerSettings | None = None,
    *,
    checkpoint: Literal["last", "best"] = "last",
    progress: Callable[[int], None] | None = None,
) -> RunSummary:
    """Segment every input, and skip the inputs that an interrupted run in the same folder finished.

    Workers load the model from `segmenter.source` (`checkpoint` of a run folder). Results are the same to the byte for
    any number of workers, on this machine or on a Ray cluster. `progress` receives the number of finished inputs.
    """
    settings, workers = settings or SegmentSettings(), workers or WorkerSettings()
    segmenter.check(settings)
    check_output(output)
    outcomes, sink_class = _outcomes(segmenter, inputs, output, settings, workers, checkpoint), _sink_class(output)
    with writing(output.out):
        output.out.mkdir(parents=True, exist_ok=True)
        if output.format == "files" and not any(output.out.iterdir()):
            mark_output(output.out)
    with locked(output.out):
        sink = sink_class(segmenter, inputs, output, settings)
        items = batches(inputs, output.batch, sink.summary.resumed)
        summary = drain(outcomes(items), sink, output, len(inputs.files), progress)
    if not summary.images:
        with suppress(OSError):
            if [found.name for found in output.out.iterdir()] == [OUTPUT]:
                (output.out / OUTPUT).unlink()
            output.out.rmdir()
    return summary


def drain(
    outcomes: Generator[Outcome, None, None],
    sink: Sink,
    output: OutputSettings,
    total: int,
    progress: Callable[[int], None] | None = None,
) -> RunSummary:
    """Write all outcomes. After Ctrl-C the same call resumes."""
    report = progress or (lambda finished: None)
    report(sink.summary.resumed)
    try:
        # Closing the generator ends the workers.
        with closing(outcomes):
            for outcome in outcomes:
                sink.add(outcome)
                report(outcome.item.number + 1)
        sink.finish()
    except KeyboardInterrupt:
        sink.close()
        raise KeyboardInterrupt(
            f"stopped, {output.out} keeps {sink.summary.finished:,} of {total:,} images; run the same command to resume"
        ) from None
    finally:
        sink.close()
    return sink.summary


def _outcomes(
    segmenter: BaseSegmenter,
    inputs: Inputs,
    output: OutputSettings,
    settings: SegmentSettings,
    workers: WorkerSettings,
    checkpoint: Literal["last", "best"],
) -> Outcomes:
    """A function from batches to their outcomes: in this process, in others, or on a cluster."""
    encode: Encode = encode_rows if output.format == "parquet" else EncodeFiles(output)
    count = workers.workers
    if count is None and workers.engine == "processes":
        return lambda items: segment_here(segmenter, items, inputs.sources, settings, encode)
    if segmenter.source is None:
        raise ValueError("workers load the model themselves; expected a model that was loaded from a name or path")
    work = Work(segmenter.source, str(segmenter.device), checkpoint, settings, encode, inputs.sources)
    if workers.engine == "ray":
        from cocanet.predict.ray import segment_by_ray

        extra("ray.data", "ray", "clusters are used")
        return lambda items: segment_by_ray(work, items, count)
    return lambda items: segment_by_processes(work, items, count or 1)


def _sink_class(
    output: OutputSettings,
) -> Callable[[BaseSegmenter, Inputs, OutputSettings, SegmentSettings], Sink]:
    if output.format == "parquet":
        from cocanet.predict.parquet import ParquetSink

        return ParquetSink
    return FolderSink


class FolderSink:
    """Writes the files of each image, and at the end the annotation file and the contact sheet."""

    def __init__(
        self, segmenter: BaseSegmenter, inputs: Inputs, output: OutputSettings, settings: SegmentSettings
    ) -> None:
        self.inputs, self.output = inputs, output
        self.weights = segmenter.source or segmenter.preset.name
        self.refined = segmenter.refines(settings)
        self.summary = RunSummary(failures=list(inputs.failures))
        self.tiles: list[Tile] = []
        self._log = ResumeLog(output.out, describe_run(segmenter, inputs, output, settings), fresh=output.overwrite)
        for entry in self._log.entries():
            if "image" in entry and self.summary.finished < output.sheet:
                self.tiles += self._read_tile(entry["image"])
            self._count(entry)
        self.summary.resumed = self.summary.finished
        self._pool = ThreadPoolExecutor(WRITERS, "writer")
        self._waiting: deque[Future[dict[str, Any]]] = deque()

    def add(self, outcome: Outcome) -> None:
        if outcome.result is not None and outcome.result.tile is not None:
            self.tiles.append(outcome.result.tile)
        self._waiting.append(self._pool.submit(_write, self.output.out, outcome))
        self._collect(MAX_WAITING)

    def finish(self) -> None:
        self._collect(0)
        if self.summary.images:
            self._write_annotations()
            finish_annotations(self.output.out, self.output.also, self._names())
        if self.tiles:
            refined = ", refined masks" if self.refined else ""
            title = f"{Path(self.weights).stem}: {len(self.tiles)} of {self.summary.images:,} images{refined}"
            sheet = draw_contact_sheet(self.tiles, title)
            write(self.output.out / "sheet.png", save_bytes(sheet, format="PNG"))
        self._log.delete()

    def close(self) -> None:
        with suppress(OSError):
            self._collect(0)
        self._pool.shutdown(cancel_futures=True)
        self._log.close()

    def _write_annotations(self) -> None:
        info = {
            "description": "objects predicted by cocanet",
            "weights": self.weights,
            "folder": str(self.inputs.root),
            "refined": self.refined,
        }
        with AnnotationFile(self.output.out / "objects.json", info) as file:
            for entry in self._log.entries():
                if "image" in entry:
                    number = file.images + 1
                    numbered = [{**annotation, "image_id": number} for annotation in entry["annotations"]]
                    file.add({"id": number, **entry["image"]}, numbered)

    def _names(self) -> Iterator[str]:
        """The names of the images' output files."""
        for entry in self._log.entries():
            if "image" in entry:
                yield Path(entry["image"]["labels"]).relative_to("labels").with_suffix("").as_posix()

    def _collect(self, limit: int) -> None:
        """Log images whose files are written, in order, and wait until at most `limit` are not."""
        while self._waiting and (self._waiting[0].done() or len(self._waiting) > limit):
            entry = self._waiting.popleft().result()
            self._log.add(entry)
            self._count(entry)

    def _count(self, entry: dict[str, Any]) -> None:
        self.summary.finished += 1
        if "image" in entry:
            self.summary.images += 1
            self.summary.objects += sum(not annotation["background"] for annotation in entry["annotations"])
        else:
            path = self.inputs.files[self.summary.finished - 1]
            self.summary.failures.append(ReadFailure(path, entry["error"]))

    def _read_tile(self, image: dict[str, Any]) -> list[Tile]:
        """The tile of an image that an earlier run finished; none if its file is gone."""
        try:
            pixels = self.inputs.read(self.inputs.files[self.summary.finished])
            labels = np.asarray(Image.open(self.output.out / image["labels"]))
            return [make_tile(image["file_name"], pixels, draw_overlay(pixels, labels))]
        except (ValueError, OSError):
            return []


def _write(out: Path, outcome: Outcome) -> dict[str, Any]:
    """Write the files of an image; returns its line of the log."""
    if outcome.result is None:
        return {"file_name": outcome.item.file_name, "error": outcome.error}
    for path, content in outcome.result.contents.items():
        write(out / path, content)
    return {"image": outcome.result.image, "annotations": outcome.result.annotations}
