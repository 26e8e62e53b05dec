"""Memory does not grow with the number of images."""

from __future__ import annotations

import multiprocessing
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from cocanet.data.sample import Sample
from cocanet.data.store_writer import write_store
from cocanet.predict import load
from cocanet.predict.inputs import find_images
from cocanet.predict.segment_many import segment_many
from cocanet.predict.segment_settings import OutputSettings, WorkerSettings
from tests.small_runs import Squares

IMAGES, SIZE = int(os.environ.get("COCANET_LOAD_IMAGES", "400")), 160


class OneSquare(Squares):
    """The same image at every index."""

    def __getitem__(self, index: int) -> Sample:
        return super().__getitem__(5)


def own_memory(pid: int) -> float:
    """Megabytes of a process alone, without the shared pages of a mapped store."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon"))


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
@pytest.mark.parametrize(("workers", "format"), [(None, "files"), (1, "parquet")])
def test_memory_is_the_same_after_many_images(place, tmp_path, workers, format):
    """To keep every image would take 77 kB more for each, to keep every overlay much more."""
    if format == "parquet":
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    write_store(OneSquare(IMAGES, size=SIZE), tmp_path / "store")
    seen: dict[int, list[float]] = {IMAGES // 4: [], IMAGES: []}

    def measure(finished: int) -> None:
        if finished in seen:
            pids = [os.getpid(), *(child.pid or 0 for child in multiprocessing.active_children())]
            seen[finished] = [own_memory(pid) for pid in pids]

    out = tmp_path / "out"
    output = OutputSettings(out, format=format, part=64)
    inputs = find_images([tmp_path / "store"], out)
    done = segment_many(load(place.weights), inputs, output, workers=WorkerSettings(workers), progress=measure)
    assert done.images == IMAGES
    first, last = (np.array(memory) for memory in seen.values())
    assert len(last) == 1 + (workers or 0)
    assert (last - first).max() < 0.04 * IMAGES, f"{last - first} MB more for {IMAGES * 3 // 4} images"
