"""Models by name, file and folder."""

import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from cocanet.io import trained
from cocanet.io.trained import shipped_names
from cocanet.predict import load
from cocanet.predict.segmenter import Segmenter
from tests.predict.models import real, weights_file

IMAGE = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)


def same_model(one: Segmenter, other: Segmenter) -> None:
    assert one.preset == other.preset
    mine, yours = one.model.state_dict(), other.model.state_dict()
    assert mine.keys() == yours.keys()
    assert all(torch.equal(mine[name], yours[name]) for name in mine)
    np.testing.assert_array_equal(one.segment(IMAGE).labels, other.segment(IMAGE).labels)


def test_a_weights_file_and_a_run_folder(tmp_path):
    weights_file(tmp_path / "last.safetensors")
    same_model(load(tmp_path / "last.safetensors"), real())
    same_model(load(str(tmp_path)), real())
    assert load(tmp_path).notes == {"step": 7}
    assert not load(tmp_path).model.training
    with pytest.raises(ValueError, match=r"it has no best\.safetensors"):
        load(tmp_path, checkpoint="best")


def test_save_and_load_pretrained(tmp_path):
    segmenter = load(weights_file(tmp_path / "w.safetensors"))
    folder = tmp_path / "deep" / "hub"
    segmenter.save_pretrained(folder)
    assert {"config.json", "model.safetensors"} <= {path.name for path in folder.iterdir()}
    for again in (Segmenter.from_pretrained(folder), Segmenter.from_pretrained(str(folder)), load(folder)):
        same_model(again, segmenter)
        assert again.notes == {"step": 7}
    before = (folder / "model.safetensors").read_bytes(), (folder / "config.json").read_bytes()
    Segmenter.from_pretrained(folder).save_pretrained(tmp_path / "again")
    assert before[0] == (tmp_path / "again" / "model.safetensors").read_bytes()
    assert before[1] == (tmp_path / "again" / "config.json").read_bytes()
    same_model(load(folder / "model.safetensors"), segmenter)


def test_weights_that_another_program_wrote_load_by_the_configuration(tmp_path):
    segmenter = real()
    segmenter.save_pretrained(tmp_path)
    safetensors.torch.save_file(segmenter.model.state_dict(), tmp_path / "model.safetensors", {"format": "pt"})
    same_model(load(tmp_path), segmenter)


def test_damaged_folders(tmp_path):
    with pytest.raises(ValueError, match=r"lacks config\.json or model\.safetensors"):
        Segmenter.from_pretrained(tmp_path)
    real().save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    changes = {
        "is damaged: expected JSON": "{",
        r"of a model of type 'bert'; expected 'cocanet'": json.dumps({**config, "model_type": "bert"}),
        r"of a model of type None": "[]",
        "bad configuration: model": json.dumps({**config, "preset": {"name": "x"}}),
    }
    for message, text in changes.items():
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(ValueError, match=message):
            load(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").write_bytes((tmp_path / "model.safetensors").read_bytes()[:500])
    with pytest.raises(ValueError, match=r"model\.safetensors is truncated"):
        load(tmp_path)


def test_names_of_shipped_weights(tmp_path, monkeypatch):
    (tmp_path / "shipped").mkdir()
    weights_file(tmp_path / "shipped" / "tetrominoes.safetensors")
    monkeypatch.setattr(trained, "files", lambda _: tmp_path)
    assert shipped_names() == ["tetrominoes"]
    same_model(load("tetrominoes"), real())
    with pytest.raises(ValueError, match=r"'tetromino'.*did you mean 'tetrominoes'\? The package has tetrominoes"):
        load("tetromino")
    with pytest.raises(ValueError, match=r"no file or folder 'clevr', and no weights of that name\. The package has"):
        load("clevr")


def test_a_folder_of_the_same_name_does_not_hide_shipped_weights(tmp_path, monkeypatch):
    (tmp_path / "shipped").mkdir()
    weights_file(tmp_path / "shipped" / "tetrominoes.safetensors")
    monkeypatch.setattr(trained, "files", lambda _: tmp_path)
    (tmp_path / "here" / "tetrominoes").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    same_model(load("tetrominoes"), real())
    for path in ("./tetrominoes", Path("tetrominoes"), Path("./tetrominoes")):
        with pytest.raises(ValueError, match="not a run folder"):
            load(path)


def test_an_unknown_device(tmp_path):
    weights = weights_file(tmp_path / "w.safetensors")
    for device in ("cuda:99", "gpu"):
        with pytest.raises(ValueError, match=f"device '{device}' cannot be used here"):
            load(weights, device=device)
