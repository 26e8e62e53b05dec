"""What can be known to go wrong before a run starts."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from cocanet.config import Adam, Muon, Schedule
from cocanet.io.run_folder import RunFolder, check_writable
from cocanet.io.trained import open_model
from cocanet.train.loop import train
from tests.train.runs import STAGE, noise_store, stop_at, tiny_settings

HALF = replace(STAGE, share=0.5)


@pytest.fixture
def data(tmp_path):
    return noise_store(tmp_path / "data")


def test_settings_survive_the_disk(tmp_path, data):
    settings = tiny_settings(data, {"minutes": 1.5, "validate_every": 7}, clip_norm=2.0)
    RunFolder(tmp_path).write_settings(settings)
    assert RunFolder(tmp_path).read_settings() == settings


def test_a_run_is_never_overwritten(tmp_path, data):
    train(tiny_settings(data), tmp_path / "run")
    with pytest.raises(ValueError, match="already holds a run: add --resume to continue it"):
        train(tiny_settings(data), tmp_path / "run")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    with pytest.raises(ValueError, match="neither empty nor a run folder"):
        train(tiny_settings(data), tmp_path / "mine")


def test_resuming_another_architecture_names_the_difference(tmp_path, data):
    settings = tiny_settings(data)
    train(settings, tmp_path / "run")
    wider = replace(settings, preset=replace(settings.preset, model=replace(settings.preset.model, dim=32)))
    with pytest.raises(ValueError, match=re.escape("with another model: it has model.dim: 16, not 32")):
        train(wider, tmp_path / "run", resume=True)
    reseeded = replace(settings, run=replace(settings.run, seed=5))
    with pytest.raises(ValueError, match="another seed: it has seed: 0, not 5"):
        train(reseeded, tmp_path / "run", resume=True)
    elsewhere = replace(settings, data=replace(settings.data, path="elsewhere"))
    with pytest.raises(ValueError, match=r"another data: it has data\.path"):
        train(elsewhere, tmp_path / "run", resume=True)


def test_resuming_with_other_stages_is_refused_but_their_numbers_may_change(tmp_path, data):
    settings = tiny_settings(data)
    stop_at(settings, tmp_path / "run", 2)

    def staged(*stages):
        return replace(settings, preset=replace(settings.preset, train=replace(settings.preset.train, stages=stages)))

    for stages in ((replace(STAGE, trains=("decoder",)),), (replace(STAGE, optimiser=Muon()),), (HALF, HALF)):
        with pytest.raises(ValueError, match="cannot be resumed with another stage: it has stage"):
            train(staged(*stages), tmp_path / "run", resume=True)
    slower = replace(STAGE, optimiser=Adam(learning_rate=1e-4), schedule=Schedule(decay="cosine"))
    assert train(staged(slower), tmp_path / "run", resume=True).step == 6


@pytest.mark.parametrize("damage", ["truncated", "foreign", "weights only"])
def test_resuming_from_a_bad_checkpoint_is_one_line(tmp_path, data, damage):
    train(tiny_settings(data), tmp_path / "run")
    last = tmp_path / "run" / "last.safetensors"
    if damage == "truncated":
        last.write_bytes(last.read_bytes()[:-100])
    elif damage == "foreign":
        last.write_bytes(b"PK\x03\x04 something else altogether")
    else:
        shutil.copy(tmp_path / "run" / "best.safetensors", last)
    expected = {
        "truncated": "is truncated, or not a safetensors file: .* bytes; expected ",
        "foreign": "is truncated, or not a safetensors file",
        "weights only": "does not say where its run stands",
    }[damage]
    with pytest.raises(ValueError, match=expected) as caught:
        train(tiny_settings(data, steps=9), tmp_path / "run", resume=True)
    assert "\n" not in str(caught.value)


def test_a_moved_run_opens(tmp_path, data):
    train(tiny_settings(data), tmp_path / "run")
    before = open_model(tmp_path / "run").model.state_dict()
    (tmp_path / "elsewhere").mkdir()
    shutil.move(tmp_path / "run", tmp_path / "elsewhere" / "run")
    after = open_model(tmp_path / "elsewhere" / "run").model.state_dict()
    assert all(bool((after[name] == weight).all()) for name, weight in before.items())


def test_images_of_another_size(tmp_path):
    wrong = noise_store(tmp_path / "data", size=(10, 12))
    with pytest.raises(ValueError, match="holds images of 10×12 pixels; this model takes 8×12"):
        train(tiny_settings(wrong), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_missing_data_folder(tmp_path):
    with pytest.raises(ValueError, match=r"data folder .*nowhere does not exist; `coca scenes` or `coca import`"):
        train(tiny_settings(tmp_path / "nowhere"), tmp_path / "run")


def test_a_full_disk_is_known_before_training(tmp_path, data, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage._replace(free=1000))
    with pytest.raises(ValueError, match=r"needs about .* but its disk has only 1\.0 kB free"):
        train(tiny_settings(data), tmp_path / "run")


def test_a_disk_that_fills_up_leaves_the_last_checkpoint(tmp_path, data, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    calls = []
    plain = os.fsync
    monkeypatch.setattr("os.fsync", lambda fd: full(fd) if len(calls) > 12 else (calls.append(fd), plain(fd)))
    with pytest.raises(OSError, match=r"cannot save step \d+ to .*: No space left on device; what it held is intact"):
        train(tiny_settings(data, {"checkpoint_every": 1, "validate_every": 100}, steps=50), tmp_path / "run")
    assert open_model(tmp_path / "run").step >= 1
    assert not list((tmp_path / "run").glob("*.tmp"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written(tmp_path, data):
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(ValueError, match="cannot write to"):
        train(tiny_settings(data), tmp_path / "locked" / "run")


def test_a_file_in_the_place_of_the_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"cannot write to .*: .*file is not a folder"):
        check_writable(RunFolder(tmp_path / "file" / "run"), 0)


def test_a_place_that_is_no_disk(tmp_path):
    with pytest.raises(ValueError, match="cannot write to /proc/run: /proc is not a folder that you may write to"):
        check_writable(RunFolder(Path("/proc/run")), 0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is damaged: expected JSON"),
        ("[]", "does not describe a run"),
        ('{"format": "cocanet-run", "version": 9}', "has version 9, expected 1"),
        ('{"format": "cocanet-run", "version": 1}', "has a bad configuration: preset.name: Field required"),
    ],
)
def test_damaged_settings(tmp_path, content, message):
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(ValueError, match=message):
        RunFolder(tmp_path).read_settings()


def test_settings_of_a_newer_version_are_not_guessed_at(tmp_path, data):
    folder = RunFolder(tmp_path)
    folder.write_settings(tiny_settings(data))
    content = json.loads(folder.settings_file.read_text())
    content["preset"]["model"]["levels"][1]["spin"] = 1
    folder.settings_file.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"a field that this version does not know: preset\.model\.levels\.1\.spin"):
        folder.read_settings()
