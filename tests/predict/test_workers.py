"""Workers on this machine: the same bytes for any number of workers, and after any of them dies."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest
from PIL import Image

from cocanet.predict.batches import batches
from cocanet.predict.resume_log import NAME
from cocanet.predict.segment_many import segment_many
from cocanet.predict.segment_settings import OutputSettings, SegmentSettings, WorkerSettings
from cocanet.predict.workers import Work, segment_by_processes
from tests.predict.conftest import BATCH, contents, one_thread
from tests.predict.crashing import CountObjects
from tests.predict.models import real, weights_file


def work_of(place: Any, encode: Any) -> Work:
    return Work(place.weights, "cpu", "last", SegmentSettings(), encode, {})


def outcomes(place: Any, encode: Any, workers: int = 2) -> list[Any]:
    inputs = place.inputs(place.path / "nowhere")
    return list(segment_by_processes(work_of(place, encode), batches(inputs, BATCH), workers))


def test_mistakes(place, tmp_path):
    with pytest.raises(ValueError, match="workers must be at least 1; got 0"):
        WorkerSettings(workers=0)
    with pytest.raises(ValueError, match="expected a model that was loaded from a name or path"):
        segment_many(real(), place.inputs(tmp_path / "o"), OutputSettings(tmp_path / "o"), workers=WorkerSettings(1))
    assert not (tmp_path / "o").exists()


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_bytes_do_not_depend_on_the_number_of_workers(place, tmp_path, workers):
    """With one worker for the exported model, with two for weights that torch runs."""
    counts: list[int] = []
    if workers == 2:
        place = place._replace(weights=str(weights_file(tmp_path / "w.safetensors")))
    with one_thread():
        place.run(tmp_path / "alone")
    done = place.run(tmp_path / "out", WorkerSettings(workers), progress=counts.append)
    assert contents(tmp_path / "out") == contents(tmp_path / "alone")
    assert (done.images, done.finished, [failure.path.name for failure in done.failures]) == (29, 30, ["3.png"])
    assert counts == sorted(counts)
    assert counts[-1] == 30
    assert multiprocessing.active_children() == []


@pytest.mark.slow
def test_a_killed_worker_loses_nothing(place, tmp_path):
    killed: list[int] = []

    def kill(finished: int) -> None:
        if finished == 1 and not killed:
            child = multiprocessing.active_children()[0]
            killed.append(child.pid or 0)
            os.kill(killed[0], signal.SIGKILL)

    place.run(tmp_path / "out", WorkerSettings(2), progress=kill)
    assert killed
    assert contents(tmp_path / "out") == contents(place.path / "files")


@pytest.mark.slow
def test_workers_end_with_a_run_that_is_stopped(place, tmp_path):
    def stop(finished: int) -> None:
        if finished == 1:
            assert multiprocessing.active_children()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="run the same command to resume") as stopped:
        place.run(tmp_path / "out", WorkerSettings(1), progress=stop)
    assert multiprocessing.active_children() == [], stopped
    place.run(tmp_path / "out", WorkerSettings(1))
    assert contents(tmp_path / "out") == contents(place.path / "files")


@pytest.mark.slow
def test_a_worker_that_dies_at_its_work_is_replaced(place, tmp_path):
    """Twice at the same image; the third worker gets through, in the company of the same images."""
    for life in range(2):
        (tmp_path / str(life)).touch()
    found = outcomes(place, CountObjects(("9.png",), tmp_path))
    expected = outcomes(place, CountObjects(), workers=1)
    assert found == expected
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_an_image_that_brings_down_every_worker_is_listed(place):
    found = outcomes(place, CountObjects(("9.png",)))
    assert [outcome.item.number for outcome in found] == list(range(30))
    errors = {outcome.item.file_name: outcome.error for outcome in found if outcome.error}
    assert errors == {"3.png": "the file is empty", "9.png": "3 workers died at it (signal 9)"}


@pytest.mark.slow
def test_weights_that_workers_cannot_load_end_the_run(place):
    broken = Work("nothing", "cpu", "last", SegmentSettings(), CountObjects(), {})
    items = batches(place.inputs(place.path / "nowhere"), BATCH)
    with pytest.raises(ValueError, match="there is no file or folder 'nothing'"):
        list(segment_by_processes(broken, items, 2))
    assert multiprocessing.active_children() == []


@pytest.mark.slow
def test_killed_altogether_and_started_again(place, tmp_path):
    """The command and its workers at once, as a machine that stops; then the same command."""
    photos, out, whole = (tmp_path / name for name in ("photos", "out", "whole"))
    photos.mkdir()
    for number in range(20):  # large ones last, so that there is time to be killed
        side = 16 if number < 8 else 1200
        Image.new("RGB", (side, side), (number, 90, 9)).save(photos / f"{number}.png")
    (photos / "3.png").write_bytes(b"")
    command = [sys.executable, "-m", "cocanet", "segment", place.weights, str(photos), "--batch", str(BATCH)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}

    def noted() -> int:
        return (out / NAME).read_bytes().count(b"\n") - 1 if (out / NAME).exists() else 0

    workers = [*command, "--out", str(out), "--workers", "2"]
    with subprocess.Popen(workers, env=environment, start_new_session=True, stdout=subprocess.DEVNULL) as running:
        while running.poll() is None and noted() < BATCH:
            time.sleep(0.01)
        os.killpg(running.pid, signal.SIGKILL)
    assert running.returncode == -signal.SIGKILL, "it was over before it could be killed"
    assert not (out / "objects.json").exists()
    again, other = (
        subprocess.run([*command, "--out", str(where)], env=environment, capture_output=True, text=True, check=False)
        for where in (out, whole)
    )
    for run in (again, other):
        assert run.returncode == 1
        assert "3.png: the file is empty" in run.stderr
    assert "of an earlier run" in again.stdout
    assert contents(out) == contents(whole)
