"""Weights on disk: what is written is read, and anything else is refused in one line."""

from __future__ import annotations

import json

import pytest
import safetensors.torch
import torch

import cocanet
from cocanet.config import DataConfig, Preset
from cocanet.io.trained import open_model
from cocanet.io.weights import read_weights, write_weights
from cocanet.presets import PHOTOGRAPHS, PRESETS, find
from cocanet.presets.baselines import BASELINES
from tests.tiny import images, small

PRESET = Preset("tiny", small(), DataConfig("noise"))


def test_a_model_comes_back_as_it_was(tmp_path):
    model = cocanet.build(PRESET, seed=3).eval()
    write_weights(tmp_path / "w.safetensors", PRESET, model.state_dict(), {"step": 7})
    found = open_model(tmp_path / "w.safetensors")
    assert (found.preset, found.step) == (PRESET, 7)
    x = images(small())
    assert torch.equal(found.model(x).reconstruction, model(x).reconstruction)


def test_every_preset_survives_the_header(tmp_path):
    for name in [*PRESETS, *PHOTOGRAPHS, *BASELINES, *(f"{name}-fast" for name in PRESETS)]:
        write_weights(tmp_path / "w.safetensors", find(name), {"x": torch.zeros(1)}, {})
        assert read_weights(tmp_path / "w.safetensors").preset == find(name), name


def written(tmp_path, **changes):
    """A weights file of the tiny model with some tensors changed."""
    path = tmp_path / "w.safetensors"
    tensors = cocanet.build(PRESET, seed=0).state_dict() | changes
    write_weights(path, PRESET, {name: value for name, value in tensors.items() if value is not None}, {})
    return path


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"backbone.direct.bias": None}, "lacks the weight backbone.direct.bias"),
        ({"spare": torch.zeros(1)}, "a weight spare that its own model lacks"),
        ({"backbone.direct.bias": torch.zeros(3)}, r"backbone.direct.bias of shape \(3,\), its model expects \(16,\)"),
    ],
)
def test_tensors_that_do_not_fit(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        open_model(written(tmp_path, **changes))


def test_files_that_are_no_weights(tmp_path):
    path = tmp_path / "w.safetensors"
    with pytest.raises(ValueError, match=r"there is no file or folder .*w\.safetensors"):
        open_model(path)
    with pytest.raises(ValueError, match=r"is not a run folder with a checkpoint: it has no last\.safetensors"):
        open_model(tmp_path)
    torch.save({"weights": torch.zeros(3)}, path)
    with pytest.raises(ValueError, match="truncated, or not a safetensors file"):
        open_model(path)
    safetensors.torch.save_file({"x": torch.zeros(3)}, path)
    with pytest.raises(ValueError, match="was written by another program"):
        open_model(path)
    safetensors.torch.save_file({"x": torch.zeros(3)}, path, metadata={"cocanet": json.dumps({"version": 2})})
    with pytest.raises(ValueError, match="has weights of version 2; this program reads version 1"):
        open_model(path)


def test_truncated_files(tmp_path):
    path = written(tmp_path)
    content = path.read_bytes()
    for share in (0.0, 0.001, 0.3, 0.999):
        path.write_bytes(content[: int(share * len(content))])
        with pytest.raises(ValueError, match="truncated, or not a safetensors file") as caught:
            open_model(path)
        assert "\n" not in str(caught.value)
