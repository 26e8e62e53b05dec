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

import pytest

from cocanet.cli.compare import run_compare
from cocanet.cli.compare_child import main, peak_bytes
from cocanet.compare.note import Note, read_note, write_note
from cocanet.compare.settings import Comparison, Job, plan
from cocanet.compare.training import clear_failure, train_apart
from cocanet.config.plain import to_plain
from cocanet.data.store_writer import write_store
from cocanet.runs.folder import RunFolder
from cocanet.train.interrupt import Stopped
from cocanet.weights import read_weights
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
    """It is at least what is held now, and does not begin with the peak of whoever started it."""
    held = bytearray(b"1") * (300 * 2**20)
    assert peak_bytes() > len(held)
    code = (
        "import importlib.util, sys; "
        "spec = importlib.util.spec_from_file_location('child', sys.argv[1]); "
        "sys.modules['cocanet'] = sys.modules['cocanet.compare'] = type(sys)('empty'); "
        "note = sys.modules['cocanet.compare.note'] = type(sys)('note'); "
        "note.Note = note.read_note = note.write_note = None; "
        "child = importlib.util.module_from_spec(spec); spec.loader.exec_module(child); print(child.peak_bytes())"
    )
    file = sys.modules["cocanet.cli.compare_child"].__file__
    small = subprocess.run([sys.executable, "-c", code, file], capture_output=True, text=True, check=True)
    assert 10**6 < int(small.stdout) < 10**8
    del held


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("the loss is nan at step 3"), "the loss is nan at step 3"),
        (OSError("the disk is full"), "the disk is full"),
        (MemoryError("no room"), "out of memory: no room"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried\nmore"), "out of memory: DefaultCPU"),
        (KeyError("levels"), "KeyError: 'levels'"),
    ],
)
def test_a_failure_is_noted_with_its_reason(tmp_path, monkeypatch, error, reason):
    def broken(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("cocanet.train.loop.train", broken)
    monkeypatch.setattr("cocanet.cli.compare_child._end_with_parent", lambda: None)
    write_note(tmp_path, Note(10**15))
    settings = job_of(tmp_path / "out", tmp_path).settings
    assert main(tmp_path, json.dumps(to_plain(settings))) == 1
    note = read_note(tmp_path)
    assert note.failed is not None
    assert note.failed.startswith(reason)
    assert "\n" not in note.failed
    assert note.peak_bytes == 10**15, "the largest of all parts of the run"


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import os; os.kill(os.getpid(), 9)", "its process was killed, as happens when memory runs out"),
        ("import os; os.abort()", "its process ended with SIGABRT"),
        ("raise SystemExit(3)", "its process ended with exit code 3"),
    ],
)
def test_a_process_that_ends_without_a_word_has_failed(tmp_path, store, monkeypatch, code, reason):
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\nexec {sys.executable} -S -c '{code}'\n")
    script.chmod(0o755)
    monkeypatch.setattr("cocanet.compare.training.sys.executable", str(script))
    job = job_of(tmp_path / "out", store)
    train_apart(job)
    assert read_note(job.run).failed == reason


def test_a_failure_before_the_run_began_is_not_in_its_way(tmp_path, store):
    job = job_of(tmp_path / "out", store)
    write_note(job.run, Note(1, "the disk is full"))
    clear_failure(job)
    assert list(job.run.iterdir()) == []


def test_a_signal_is_passed_on_and_waited_for(tmp_path, store, monkeypatch):
    """The child takes its time to save; Ctrl-C ends in `Stopped` only after that."""
    script, saved = tmp_path / "script", tmp_path / "saved"
    script.write_text(
        f"#!{sys.executable} -S\nimport pathlib, signal, sys, time\n"
        f"def save(*_):\n    time.sleep(0.5)\n    pathlib.Path('{saved}').touch()\n    sys.exit(143)\n"
        f"signal.signal(signal.SIGTERM, save)\npathlib.Path('{saved}.ready').touch()\ntime.sleep(60)\n"
    )
    script.chmod(0o755)
    monkeypatch.setattr("cocanet.compare.training.sys.executable", str(script))

    def interrupt() -> None:
        while not Path(f"{saved}.ready").exists():
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(Stopped) as stop:
        train_apart(job_of(tmp_path / "out", store))
    assert stop.value.signal == signal.SIGINT
    assert saved.exists()


@pytest.mark.slow
def test_two_models_for_a_second_each(tmp_path, store):
    out, models = tmp_path / "out", ("coca-net", "coca-net-cpu")
    settings = {"models": models, "minutes": 0.02, "batch_size": 4, "data": store, "out": out}
    assert run_compare("tetrominoes", **settings, changes=SMALL) == 0
    for model in models:
        run = out / model / "seed-0"
        notes = read_weights(RunFolder(run).last).notes
        assert notes["finished"]
        assert 1.2 <= notes["seconds"] < 10
        assert RunFolder(run).read_settings().preset.train.batch_size == 4
        assert 10**8 < read_note(run).peak_bytes < 4 * 10**9
        assert json.loads((run / "evaluation.json").read_text())["step"] == notes["step"] == len(losses(run))
    assert {path.name for path in out.iterdir()} == {
        *models,
        *(f"comparison.{suffix}" for suffix in ("json", "md", "csv", "tex", "png")),
    }
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*.safetensors")}
    assert run_compare("tetrominoes", **settings, changes=SMALL) == 0
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*.safetensors")} == before


@pytest.mark.slow
def test_a_stopped_training_is_saved_and_goes_on(tmp_path, store):
    job = job_of(tmp_path / "out", store, minutes=0.1)

    def interrupt() -> None:
        while not losses(job.run):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=interrupt).start()
    with pytest.raises(Stopped):
        train_apart(job)
    notes = read_weights(RunFolder(job.run).last).notes
    assert notes["step"] >= 1
    assert not job.finished
    train_apart(job)
    assert job.finished
    assert [step for step, _ in losses(job.run)] == list(
        range(1, read_weights(RunFolder(job.run).last).notes["step"] + 1)
    )
    assert read_note(job.run).failed is None
