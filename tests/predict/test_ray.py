"""Two workers of a Ray cluster on this machine: the bytes of one process, also if one of them is killed."""

from __future__ import annotations

import io
import pickle
import re
from typing import Any

import numpy as np
import pytest
from PIL import Image

from cocanet.predict import load
from cocanet.predict.batches import batches
from cocanet.predict.columns import ColumnSegmenter
from cocanet.predict.ray import RayWorker, segment_by_ray
from cocanet.predict.segment_many import FolderSink, drain
from cocanet.predict.segment_settings import OutputSettings, SegmentSettings
from cocanet.predict.workers import Work
from cocanet.predict.writers import EncodeFiles
from tests.predict.conftest import BATCH, contents
from tests.predict.crashing import DieOnce

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Any:
    """A running cluster."""
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=100 * 2**20,
        logging_level="ERROR",
        log_to_driver=False,
    )
    yield ray
    ray.shutdown()


def test_a_worker_that_is_killed_in_the_middle(cluster, place, tmp_path):
    out, inputs, settings = tmp_path / "files", place.inputs(tmp_path / "files"), SegmentSettings()
    out.mkdir()
    output = OutputSettings(out, batch=BATCH, sheet=3)
    (tmp_path / "pids").mkdir()
    (tmp_path / "life").touch()
    encode = DieOnce(EncodeFiles(output), tmp_path / "life", tmp_path / "pids")
    work = Work(place.weights, "cpu", "last", settings, encode, {})
    sink = FolderSink(load(place.weights), inputs, output, settings)
    done = drain(segment_by_ray(work, batches(inputs, BATCH), 2), sink, output, len(inputs.files))
    assert not (tmp_path / "life").exists(), "no worker was killed"
    assert len(list((tmp_path / "pids").iterdir())) == 3
    assert done.images == 29
    expected = contents(place.path / "files")
    expected.pop(".coca-output")  # written by the command alone
    assert contents(out) == expected
    assert cluster.is_initialized(), "a cluster that was there before stays"


def test_weights_that_a_worker_cannot_load_are_its_answer():
    """As a value: Ray would repeat an error forever."""
    work = Work("nothing", "cpu", "last", SegmentSettings(), EncodeFiles(OutputSettings()), {})
    answer = RayWorker(pickle.dumps(work))({"batch": [pickle.dumps([])]})
    (error,) = map(pickle.loads, answer["outcomes"])
    assert isinstance(error, ValueError)
    assert re.match(r"a worker on .*: there is no file or folder 'nothing'", str(error))


def test_a_column_of_a_ray_data_set(cluster, place):
    from ray import data

    def png(number: int) -> bytes:
        file = io.BytesIO()
        Image.fromarray(pixels(number)).save(file, format="PNG")
        return file.getvalue()

    def pixels(number: int) -> np.ndarray:
        return np.random.default_rng(number).integers(0, 256, (16 + number, 20, 3), dtype=np.uint8)

    rows = [{"number": number, "image": png(number)} for number in range(6)]
    made = data.from_items(rows).map_batches(
        ColumnSegmenter, fn_constructor_args=(place.weights,), batch_size=3, concurrency=1
    )
    segmenter = load(place.weights)
    taken = sorted(made.take_all(), key=lambda row: row["number"])
    assert [row["number"] for row in taken] == list(range(6))
    for number, row in enumerate(taken):
        found = segmenter.segment(pixels(number))
        assert [segment["area"] for segment in row["objects"]] == [segment.area for segment in found.segments]
        assert row["error"] == ""
