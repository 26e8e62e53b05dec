"""What every worker is told once, and does again and again."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import cocanet
from cocanet.segment.batches import Encode, Item, Outcome, segment_batch
from cocanet.segment.settings import SegmentSettings
from cocanet.segment.sources import Images


@dataclass(frozen=True)
class Work:
    """A model by its name or path, and what to do with it. It is pickled, so it holds nothing large."""

    weights: str
    device: str
    checkpoint: Literal["last", "best"]
    find: SegmentSettings
    encode: Encode
    sources: Mapping[Path, Images]


class Worker:
    """Loads the model once; does a batch at a time, in one thread."""

    def __init__(self, work: Work) -> None:
        self.work = work
        # Read by onnxruntime as it opens an exported model.
        os.environ["OMP_NUM_THREADS"] = "1"
        self.segmenter = cocanet.load(work.weights, work.device, checkpoint=work.checkpoint)
        # Workers share the cores among themselves. A model that needs no torch has not loaded it.
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(1)

    def do(self, batch: list[Item]) -> list[Outcome]:
        work = self.work
        return segment_batch(self.segmenter, batch, work.sources, work.find, work.encode)
