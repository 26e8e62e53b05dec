"""`coca segment`."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import Annotated, Literal

import tyro

from cocanet.cli.arguments import Weights
from cocanet.predict.segment_settings import OutputSettings, SegmentSettings, WorkerSettings
from cocanet.words import plural


@dataclass(frozen=True)
class Segment:
    """Find the objects in your own images: label maps, overlays, COCO annotations, slot vectors."""

    weights: Weights
    paths: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="PATH…", help_behavior_hint="(required)")
    ]
    """Images, folders (also nested), stores, Parquet files, URLs, or patterns such as 'photos/*.jpg'."""
    settings: tyro.conf.OmitArgPrefixes[SegmentSettings] = field(default_factory=SegmentSettings)
    output: tyro.conf.OmitArgPrefixes[OutputSettings] = field(default_factory=OutputSettings)
    workers: tyro.conf.OmitArgPrefixes[WorkerSettings] = field(default_factory=WorkerSettings)
    checkpoint: Literal["last", "best"] = "last"
    """Which checkpoint of a run folder."""
    device: str = "cpu"
    """Device: cpu, cuda, cuda:1, mps."""

    def run(self) -> None:
        from cocanet.cli.progress import ConsoleProgress
        from cocanet.predict import load
        from cocanet.predict.inputs import find_images
        from cocanet.predict.segment_many import segment_many

        segmenter = load(self.weights, self.device, checkpoint=self.checkpoint)
        inputs = find_images(self.paths, self.output.out)
        start = time.perf_counter()
        with ConsoleProgress().bar("segmenting", len(inputs.files)) as progress:
            done = segment_many(
                segmenter,
                inputs,
                self.output,
                self.settings,
                self.workers,
                checkpoint=self.checkpoint,
                progress=progress,
            )
        if done.resumed:
            print(f"resumed after {plural(done.resumed, 'image')} of an earlier run")
        if done.images:
            speed = (done.finished - done.resumed) / (time.perf_counter() - start)
            refined = ", masks refined" if segmenter.refines(self.settings) else ""
            print(
                f"{self.output.out}: {plural(done.objects, 'object')} in {plural(done.images, 'image')}{refined}, "
                f"{speed:.1f} images/s"
            )
        if done.failures:
            nothing = "" if done.images else ", so nothing was written"
            count = max(len(inputs.files), len(done.failures))
            print(f"coca: {len(done.failures)} of {count} files could not be read{nothing}:", file=sys.stderr)
            for failure in done.failures:
                print(f"  {failure.path}: {failure.reason}", file=sys.stderr)
        sys.exit(1 if done.failures else 0)
