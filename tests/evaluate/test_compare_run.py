"""A training in a process of its own: its memory, its failures, and how it is stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cocanet.cli.compare import run_compare
from cocanet.cli.compare_child import main, peak_bytes
from cocanet.config.serialization import to_dict
from cocanet.data.store_writer import write_store
from cocanet.evaluate.compare import Comparison, Job, Note, plan, read_note, write_note
from cocanet.evaluate.compare_run import clear_failure, train_in_child
from cocanet.evaluate.evaluation import read_evaluation
from cocanet.io.run_folder import RunFolder
from cocanet.io.weights import read_weights
from cocanet.train.interrupt import Stopped
from tests.small_runs import Squares
from tests.train.runs import losses


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("squares") / "store"
    write_store(Squares(30), path)
    return path


SMALL = {
    "preset": {
        "model": {"dim": 16, "backbone": {"channels": 8}, "levels": {"0": {"depth": 0}, "1": {"depth": 1}}},
    },
    "run": {"accelerator": "cpu", "log_every": 1},
}
"""Changes that make the Tetrominoes preset small enough for a test."""


def job_of(out: Path, store: Path, minutes: float = 0.02) -> Job:
    comparison = Comparison("tetrominoes", minutes, 1, 4, str(store), SMALL)
    return plan(comparison, ("coca-net",), 1, out)[0]


def test_the_peak_is_that_of_the_process_alone():
    """It is at least what the process holds, and does not include the peak of its parent."""
    held = bytearray(b"1") * (300 * 2**20)
    assert peak_bytes() > len(held)
    code = (
        "import importlib.util, sys; "
        "spec = importlib.util.spec_from_file_location('child', sys.argv[1]); "
        "sys.modules['cocanet'] = sys.modules['cocanet.evaluate'] = type(sys)('empty'); "
        "compare = sys.modules['cocanet.evaluate.compare'] = type(sys)('compare'); "
        "compare.Note = compare.read_note = compare.write_note = None; "
        "child = importlib.util.module_from_spec(spec); spec.loader.exec_module(child); print(child.peak_bytes())"
    )
    file = sys.modules["cocanet.cli.compare_child"].__file__
    small = subprocess.run([sys.executable, "-c", code, file], capture_output=True, text=True, check=True)
    assert 10**6 < int(small.stdout) < 10**8
    del held


def test_a_failure_is_noted_with_its_reason(tmp_path, monkeypatch):
    monkeypatch.setattr("cocanet.cli.compare_child._end_with_parent", lambda: None)
    settings = json.dumps(to_dict(job_of(tmp_path / "out", tmp_path).settings))
    for error, reason in (
        (ValueError("the loss is nan at step 3"), "the loss is nan at step 3"),
        (OSError("the disk is full"), "the disk is full"),
        (MemoryError("too large"), "out of memory: too large"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried\nmore"), "out of memory: DefaultCPU"),
        (KeyError("levels"), "KeyError: 'levels'"),
    ):

        def broken(*_: object, error: Exception = error, **__: object) -> None:
            raise error

        monkeypatch.setattr("cocanet.train.loop.train", broken)
        write_note(tmp_path, Note(10**15))
        assert main(tmp_path, settings) == 1
        note = read_note(tmp_path)
        assert note.failed is not None
        assert note.failed.startswith(reason)
        assert "\n" not in note.failed
        assert note.peak_bytes == 10**15, "the largest of all parts of the run"


def test_a_process_that_ends_without_a_message_has_failed(tmp_path, store, monkeypatch):
    script, python = tmp_path / "script", sys.executable
    monkeypatch.setattr("cocanet.evaluate.compare_run.sys.executable", str(script))
    for number, (code, reason) in enumerate(
        (
            ("import os; os.kill(os.getpid(), 9)", "its process was killed, as happens when memory runs out"),
            ("import os; os.abort()", "its process ended with SIGABRT"),
            ("raise SystemExit(3)", "its process ended with exit code 3"),
        )
    ):
        script.write_text(f"#!/bin/sh\nexec {python} -S -c '{code}'\n")
        script.chmod(0o755)
        job = job_of(tmp_path / str(number), store)
        train_in_child(job)
        assert read_note(job.run).failed == reason


def test_a_failure_before_the_run_began_leaves_an_empty_folder(tmp_path, store):
    job = job_of(tmp_path / "out", store)
    write_note(job.run, Note(1, "the disk is full"))
    clear_failure(job)
    assert list(job.run.iterdir()) == []


def test_a_signal_lets_the_child_save_first(tmp_path, store, monkeypatch):
    """Ctrl-C raises `Stopped` only after the child has saved."""
    script, saved = tmp_path / "script", tmp_path / "saved"
    script.write_text(
        f"#!{sys.executable} -S\nimport pathlib, signal, sys, time\n"
        f"def save(*_):\n    time.sleep(0.5)\n    pathlib.Path('{saved}').touch()\n    sys.exit(143)\n"
        f"signal.signal(signal.SIGTERM, save)\npathlib.Path('{saved}.ready').touch()\ntime.sleep(60)\n"
    )
    script.chmod(0o755)
    monkeypatch.setattr("cocanet.evaluate.compare_run.sys.executable", str(script))

    def interrupt() -> None:
        while not Path(f"{saved}.ready").exists():
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(Stopped) as stop:
        train_in_child(job_of(tmp_path / "out", store))
    assert stop.value.signal == signal.SIGINT
    assert saved.exists()


@pytest.mark.slow
def test_a_comparison_from_training_to_tables(tmp_path, store):
    out = tmp_path / "out"
    settings = {"models": ("coca-net",), "minutes": 0.02, "batch_size": 4, "data": store, "out": out}
    assert run_compare("tetrominoes", **settings, changes=SMALL) == 0
    run = out / "coca-net" / "seed-0"
    notes = read_weights(RunFolder(run).last).notes
    assert notes["finished"]
    assert notes["seconds"] >= 1.2
    assert RunFolder(run).read_settings().preset.train.batch_size == 4
    assert 10**8 < read_note(run).peak_bytes < 4 * 10**9
    assert read_evaluation(run).step == notes["step"] == len(losses(run))
    assert {path.name for path in out.iterdir()} == {
        "coca-net",
        *(f"comparison.{suffix}" for suffix in ("json", "md", "csv", "tex", "png")),
    }
    pixels = np.asarray(Image.open(out / "comparison.png").convert("RGB"))
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 10
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*.safetensors")}
    assert run_compare("tetrominoes", **settings, changes=SMALL) == 0
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*.safetensors")} == before


@pytest.mark.slow
def test_a_stopped_training_is_saved_and_resumed(tmp_path, store):
    job = job_of(tmp_path / "out", store, minutes=1.0)

    def interrupt() -> None:
        while not losses(job.run):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=interrupt).start()
    with pytest.raises(Stopped):
        train_in_child(job)
    stopped_at = read_weights(RunFolder(job.run).last).notes["step"]
    assert stopped_at >= 1
    assert not job.finished
    train_in_child(job_of(tmp_path / "out", store, minutes=0.03))
    assert job.finished
    last = read_weights(RunFolder(job.run).last).notes["step"]
    assert last >= stopped_at
    assert [step for step, _ in losses(job.run)] == list(range(1, last + 1))
    assert read_note(job.run).failed is None
