"""Photos, weights, and the results of one process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from PIL import Image

from cocanet.predict import load
from cocanet.predict.inputs import Inputs, find_images
from cocanet.predict.segment_many import RunSummary, segment_many
from cocanet.predict.segment_settings import OutputSettings, WorkerSettings
from tests.predict.models import weights_file

BATCH = 4
EXPORTED = Path(__file__).parents[1] / "fixtures" / "exported" / "three.onnx"


class Place(NamedTuple):
    """A folder with weights, `photos`, of which the fourth is damaged, and the results of one process in `files`."""

    path: Path
    weights: str

    def inputs(self, out: Path) -> Inputs:
        return find_images([self.path / "photos"], out)

    def run(self, out: Path, workers: WorkerSettings | None = None, progress: Any = None, **output: Any) -> RunSummary:
        settings = OutputSettings(out, **{"batch": BATCH, "sheet": 3, **output})
        return segment_many(load(self.weights), self.inputs(out), settings, workers=workers, progress=progress)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="session")
def place(tmp_path_factory) -> Place:
    """With an exported model where that can run, since workers start faster without torch."""
    path = tmp_path_factory.mktemp("place")
    (path / "photos").mkdir()
    for number in range(30):
        noise = np.random.default_rng(number).integers(0, 256, (16 + number % 5, 24, 3), dtype=np.uint8)
        Image.fromarray(noise).save(path / "photos" / f"{number}.png")
    (path / "photos" / "3.png").write_bytes(b"")
    made = Place(path, str(EXPORTED if find_spec("onnxruntime") else weights_file(path / "w.safetensors")))
    with one_thread():
        made.run(path / "files")
        if find_spec("pyarrow"):
            made.run(path / "table", format="parquet", part=10)
    return made


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread, as workers do."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        yield
    torch.set_num_threads(threads)
