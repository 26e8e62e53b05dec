"""`coca segment`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from cocanet.segment.settings import OutputSettings, SegmentSettings

SECONDS_A_LINE = 10


@dataclass(frozen=True)
class Segment:
    """Find the objects in your own images: label maps, overlays, COCO annotations, slot vectors."""

    weights: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="WEIGHTS")]
    """tetrominoes, multi-dsprites, objects-room, shapestacks; a weights file, a run folder or a save_pretrained one."""
    paths: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="PATH…", help_behavior_hint="(required)")
    ]
    """Images, folders of them, also nested, stores, or patterns such as 'photos/*.jpg'."""
    find: tyro.conf.OmitArgPrefixes[SegmentSettings] = field(default_factory=SegmentSettings)
    output: tyro.conf.OmitArgPrefixes[OutputSettings] = field(default_factory=OutputSettings)
    checkpoint: Literal["last", "best"] = "last"
    """Which checkpoint of a run folder."""
    device: str = "cpu"
    """What to run on: cpu, cuda, cuda:1, mps."""

    def run(self) -> None:
        from cocanet.segment.files import check_output, segment_files
        from cocanet.segment.paths import find_images
        from cocanet.segment.segmenter import load

        check_output(self.output)
        inputs = find_images(self.paths, self.output.out)
        segmenter = load(self.weights, self.device, checkpoint=self.checkpoint)
        segmenter.check(self.find)
        start = time.perf_counter()
        with _progress(len(inputs.files)) as progress:
            done = segment_files(segmenter, inputs, self.output, self.find, progress=progress)
        print(
            f"{self.output.out}: {done.objects:,} object{'s' * (done.objects != 1)} in "
            f"{done.images:,} image{'s' * (done.images != 1)}, "
            f"{done.images / (time.perf_counter() - start):.1f} images/s"
        )
        if done.failures:
            print(f"coca: {len(done.failures)} of {len(inputs.files)} files could not be read:", file=sys.stderr)
            for failure in done.failures:
                print(f"  {failure.path}: {failure.reason}", file=sys.stderr)
        sys.exit(1 if done.failures else 0)


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """A bar, or a line now and then where there is no terminal."""
    console = Console()
    if not console.is_terminal:
        yield _lines(total)
        return
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("segmenting", total=total)
        yield lambda completed: bar.update(task, completed=completed)


def _lines(total: int) -> Callable[[int], None]:
    last = time.monotonic()

    def tell(completed: int) -> None:
        nonlocal last
        if time.monotonic() - last >= SECONDS_A_LINE:
            print(f"{completed:,} of {total:,} images", flush=True)
            last = time.monotonic()

    return tell
