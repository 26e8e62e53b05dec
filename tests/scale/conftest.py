"""Pictures, weights, and what one process makes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from PIL import Image

from cocanet.scale.run import segment_many
from cocanet.scale.settings import ScaleSettings
from cocanet.segment.files import Done
from cocanet.segment.loading import load
from cocanet.segment.paths import Inputs, find_images
from cocanet.segment.settings import OutputSettings, SegmentSettings
from tests.segment.models import weights_file

BATCH = 4


class Place(NamedTuple):
    """A folder with `photos`, of which the fourth is damaged, weights, and results of one process in `files`."""

    path: Path

    @property
    def weights(self) -> str:
        return str(self.path / "w.safetensors")

    def inputs(self, out: Path) -> Inputs:
        return find_images([self.path / "photos"], out)

    def run(self, out: Path, scale: ScaleSettings | None = None, progress: Any = None, **output: Any) -> Done:
        settings = OutputSettings(out, **{"batch": BATCH, "sheet": 3, **output})
        scale = scale or ScaleSettings()
        return segment_many(load(self.weights), self.inputs(out), settings, SegmentSettings(), scale, progress=progress)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="session")
def place(tmp_path_factory) -> Place:
    path = tmp_path_factory.mktemp("place")
    weights_file(path / "w.safetensors")
    (path / "photos").mkdir()
    for number in range(30):
        noise = np.random.default_rng(number).integers(0, 256, (16 + number % 5, 24, 3), dtype=np.uint8)
        Image.fromarray(noise).save(path / "photos" / f"{number}.png")
    (path / "photos" / "3.png").write_bytes(b"")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        made = Place(path)
        made.run(path / "files")
        if _has("pyarrow"):
            made.run(path / "table", format="parquet", part=10)
    finally:
        torch.set_num_threads(threads)
    return made


def _has(module: str) -> bool:
    try:
        __import__(module)
    except ImportError:
        return False
    return True
