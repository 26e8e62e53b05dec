"""A run is trained by one process, from the data it began with, and from whole checkpoints only."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace

import pytest

from cocanet.data.store_writer import write_store
from cocanet.files import is_output
from cocanet.io.run_folder import LOCK, RunFolder
from cocanet.io.weights import read_weights
from cocanet.train.checkpoint import read_checkpoint
from cocanet.train.loop import train
from tests.data.sources import NoiseSource
from tests.train.runs import SIZE, assert_same_run, losses, noise_store, stop_at, tiny_settings


@pytest.fixture
def data(tmp_path):
    return noise_store(tmp_path / "data")


@pytest.fixture
def stopped(tmp_path, data) -> RunFolder:
    """A run that was stopped after four of six steps, with checkpoints at steps 2 and 4."""
    stop_at(tiny_settings(data), tmp_path / "run", 4)
    return RunFolder(tmp_path / "run")


def test_a_run_is_trained_by_one_process(stopped, data):
    with stopped.held():
        for options in ({"resume": True}, {"restart": True}):
            with pytest.raises(ValueError, match=rf"run is being trained by process {os.getpid()} on .*; end it first"):
                train(tiny_settings(data), stopped.path, **options)
    assert losses(stopped.path)[-1][0] == 4
    assert train(tiny_settings(data), stopped.path, resume=True).finished
    assert not (stopped.path / LOCK).exists()


def test_a_new_run_is_locked_while_it_trains(tmp_path, data, monkeypatch):
    from cocanet.train import loop

    seen, plain = [], loop.step
    monkeypatch.setattr(
        loop, "step", lambda *given: (seen.append((tmp_path / "run" / LOCK).exists()), plain(*given))[1]
    )
    train(tiny_settings(data), tmp_path / "run")
    assert seen == [True] * 6
    assert is_output(tmp_path / "run")  # its pictures are no photographs


def test_other_data_of_the_same_count_is_noticed(stopped, data, tmp_path):
    shutil.move(data, tmp_path / "kept")
    write_store(NoiseSource(30, seed=1, size=SIZE), data)
    with pytest.raises(
        ValueError, match=r"other data: .*data has sha256 .*…, the run began with .*…; restore it, or add"
    ):
        train(tiny_settings(data), stopped.path, resume=True)
    shutil.rmtree(data)
    shutil.move(tmp_path / "kept", data)
    assert train(tiny_settings(data), stopped.path, resume=True).finished


def test_a_missing_checkpoint_is_no_new_run(stopped, data):
    stopped.last.unlink()
    stopped.previous.unlink()
    with pytest.raises(ValueError, match=r"last.safetensors is missing; add --restart to begin again at step 0"):
        train(tiny_settings(data), stopped.path, resume=True)
    assert losses(stopped.path)[-1][0] == 4
    train(tiny_settings(data), stopped.path, restart=True)
    assert [step for step, _ in losses(stopped.path)] == [1, 2, 3, 4, 5, 6]


def test_a_run_without_any_checkpoint_yet_begins_again(tmp_path, data):
    settings = tiny_settings(data, {"checkpoint_every": 100})
    stop_at(settings, tmp_path / "run", 3)
    (tmp_path / "run" / "last.safetensors").unlink()
    train(settings, tmp_path / "run", resume=True)
    train(settings, tmp_path / "whole")
    assert_same_run(tmp_path / "run", tmp_path / "whole")


@pytest.mark.parametrize("place", [0.5, 0.98, 0.001])
def test_one_wrong_bit_is_noticed_and_the_previous_checkpoint_goes_on(stopped, data, tmp_path, place):
    assert read_checkpoint(stopped.previous).state.step < read_checkpoint(stopped.last).state.step == 4
    content = bytearray(stopped.last.read_bytes())
    content[int(place * len(content))] ^= 1
    stopped.last.write_bytes(content)
    with pytest.raises(
        ValueError, match=r"last\.safetensors .*; `cp .*` goes back to step \d, or add --restart"
    ) as caught:
        train(tiny_settings(data), stopped.path, resume=True)
    assert "\n" not in str(caught.value)
    command = str(caught.value).split("`")[1].split()
    shutil.copyfile(command[1], command[2])
    train(tiny_settings(data), stopped.path, resume=True)
    train(tiny_settings(data), tmp_path / "whole")
    assert_same_run(stopped.path, tmp_path / "whole")


def test_the_best_weights_are_those_of_the_lowest_error(tmp_path, data, monkeypatch):
    """Validations 1 … 3 have errors .3, .1, .2: the second stays, although the third is written last."""
    from cocanet.train import loop

    errors, plain = iter([0.3, 0.1, 0.2]), loop.validate

    def validate(*given, **options):
        found = plain(*given, **options)
        return replace(found, scores={**found.scores, "mse": next(errors)})

    monkeypatch.setattr(loop, "validate", validate)
    train(tiny_settings(data, {"validate_every": 2}), tmp_path / "run")
    best = read_weights(tmp_path / "run" / "best.safetensors")
    assert (best.notes["step"], best.notes["scores"]["mse"]) == (4, 0.1)


def test_what_is_written_is_on_disk_before_it_has_its_name(tmp_path, monkeypatch):
    from cocanet import files

    calls, synced, renamed = list[tuple[str, int]](), os.fsync, os.replace
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: (calls.append(("fsync", os.fstat(descriptor).st_size)), synced(descriptor))
    )
    monkeypatch.setattr(os, "replace", lambda *paths: (calls.append(("replace", 0)), renamed(*paths)))
    files.write_atomically(tmp_path / "a", [b"four", b"five!"])
    assert calls == [("fsync", 9), ("replace", 0)]
