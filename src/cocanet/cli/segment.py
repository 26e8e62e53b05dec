"""`coca segment`."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import Annotated, Literal

import tyro

from cocanet.cli.weights_argument import Weights
from cocanet.scale.settings import ScaleSettings
from cocanet.segment.settings import OutputSettings, SegmentSettings
from cocanet.words import plural


@dataclass(frozen=True)
class Segment:
    """Find the objects in your own images: label maps, overlays, COCO annotations, slot vectors."""

    weights: Weights
    paths: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="PATH…", help_behavior_hint="(required)")
    ]
    """Images, folders of them, also nested, stores, Parquet files, URLs, or patterns such as 'photos/*.jpg'."""
    find: tyro.conf.OmitArgPrefixes[SegmentSettings] = field(default_factory=SegmentSettings)
    output: tyro.conf.OmitArgPrefixes[OutputSettings] = field(default_factory=OutputSettings)
    scale: tyro.conf.OmitArgPrefixes[ScaleSettings] = field(default_factory=ScaleSettings)
    checkpoint: Literal["last", "best"] = "last"
    """Which checkpoint of a run folder."""
    device: str = "cpu"
    """What to run on: cpu, cuda, cuda:1, mps."""

    def run(self) -> None:
        from cocanet.cli.console import ConsoleWatcher
        from cocanet.scale.run import segment_many
        from cocanet.segment.loading import load
        from cocanet.segment.paths import find_images
        from cocanet.segment.unfinished import check_output

        check_output(self.output)
        inputs = find_images(self.paths, self.output.out)
        segmenter = load(self.weights, self.device, checkpoint=self.checkpoint)
        segmenter.check(self.find)
        start = time.perf_counter()
        with ConsoleWatcher().progress("segmenting", len(inputs.files)) as progress:
            done = segment_many(
                segmenter,
                inputs,
                self.output,
                self.find,
                self.scale,
                checkpoint=self.checkpoint,
                progress=progress,
            )
        if done.earlier:
            print(f"went on after {plural(done.earlier, 'image')} that an earlier run had done")
        speed = (done.behind - done.earlier) / (time.perf_counter() - start)
        print(
            f"{self.output.out}: {plural(done.objects, 'object')} in {plural(done.images, 'image')}, "
            f"{speed:.1f} images/s"
        )
        if done.failures:
            print(f"coca: {len(done.failures)} of {len(inputs.files)} files could not be read:", file=sys.stderr)
            for failure in done.failures:
                print(f"  {failure.path}: {failure.reason}", file=sys.stderr)
        sys.exit(1 if done.failures else 0)
