"""What every worker is told once, and does again and again."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cocanet.segment.settings import SegmentSettings


@dataclass(frozen=True)
class Work:
    """A model by its name or path, and what to do with it. It is pickled, so it holds nothing large."""

    weights: str
    device: str
    checkpoint: str
    find: SegmentSettings
    encode: Any
    """What to make of a segmentation, see `segment.batches.Encode`."""
    sources: Mapping[Path, Any]


class Worker:
    """Loads the model once; does a batch at a time, in one thread."""

    def __init__(self, work: Work) -> None:
        from cocanet.segment.segmenter import load

        self.work = work
        self.segmenter = load(work.weights, work.device, checkpoint=work.checkpoint)  # type: ignore[arg-type]
        # Workers share the cores among themselves. A model that needs no torch has not loaded it.
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(1)

    def do(self, batch: list[Any]) -> list[Any]:
        from cocanet.segment.batches import segment_batch

        work = self.work
        return segment_batch(self.segmenter, batch, work.sources, work.find, work.encode)
