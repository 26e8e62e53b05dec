"""Segment many images: whoever does the work, wherever the results go."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Literal

from cocanet.extras import extra
from cocanet.scale.processes import segment_by_processes
from cocanet.scale.rows import encode_rows
from cocanet.scale.settings import ScaleSettings
from cocanet.scale.work import Work
from cocanet.segment.base import AnySegmenter
from cocanet.segment.batches import Encode, EncodeFiles, Item, Outcome, batches, segment_here
from cocanet.segment.files import Done, FolderSink, Sink, drain, opened_folder
from cocanet.segment.paths import Inputs
from cocanet.segment.settings import OutputSettings, SegmentSettings
from cocanet.segment.unfinished import check_output


def segment_many(
    segmenter: AnySegmenter,
    inputs: Inputs,
    output: OutputSettings,
    find: SegmentSettings | None = None,
    scale: ScaleSettings | None = None,
    *,
    checkpoint: Literal["last", "best"] = "last",
    progress: Callable[[int], None] | None = None,
) -> Done:
    """Segment every input; what a run that was stopped left in the folder is not done again.

    Workers load the model from `segmenter.source` (`checkpoint` of a run folder) themselves. The results are the same
    to the byte for any number of them, of this machine or of a Ray cluster. `progress` is told how many inputs are
    behind.
    """
    find, scale = find or SegmentSettings(), scale or ScaleSettings()
    segmenter.check(find)
    check_output(output)
    if (scale.workers or scale.engine != "processes") and segmenter.source is None:
        raise ValueError("workers load the model themselves, so it must be one that was loaded from a name or a path")
    engine, sink_of = _engine(segmenter, inputs, output, find, scale, checkpoint), _sink_of(output)
    with opened_folder(output):
        sink = sink_of(segmenter, inputs, output, find)
        outcomes = engine(batches(inputs, output.batch, sink.done.earlier))
        return drain(outcomes, sink, output, len(inputs.files), progress)


Engine = Callable[[Iterator[list[Item]]], Generator[Outcome, None, None]]


def _engine(
    segmenter: AnySegmenter,
    inputs: Inputs,
    output: OutputSettings,
    find: SegmentSettings,
    scale: ScaleSettings,
    checkpoint: Literal["last", "best"],
) -> Engine:
    encode: Encode = encode_rows if output.format == "parquet" else EncodeFiles(output)
    work = Work(segmenter.source or "", str(segmenter.device), checkpoint, find, encode, inputs.sources)
    if scale.engine == "ray":
        from cocanet.scale.ray import segment_by_ray

        extra("ray.data", "ray", "clusters are used")
        return lambda items: segment_by_ray(work, items, scale.workers)
    if scale.workers is not None:
        workers = scale.workers
        return lambda items: segment_by_processes(work, items, workers)
    return lambda items: segment_here(segmenter, items, inputs.sources, find, encode)


def _sink_of(output: OutputSettings) -> Callable[[AnySegmenter, Inputs, OutputSettings, SegmentSettings], Sink]:
    if output.format == "parquet":
        from cocanet.scale.parquet import ParquetSink

        return ParquetSink
    return FolderSink
