"""The hub through huggingface-hub's mixin, which here talks to a folder instead of the net."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from cocanet.predict import load
from cocanet.predict.segmenter import Segmenter
from tests.io.test_trained import same_model
from tests.predict.models import weights_file


@pytest.fixture
def hub(tmp_path, monkeypatch) -> Path:
    """A hub that is a folder: USER/NAME lies below it."""
    hub_mixin = pytest.importorskip("huggingface_hub.hub_mixin", reason="huggingface-hub is not installed")
    from cocanet.io import hub_mixin as ours

    folder = tmp_path / "hub"

    class Api:
        def __init__(self, token=None):
            self.token = token

        def create_repo(self, repo_id, private, exist_ok):
            (folder / repo_id).mkdir(parents=True, exist_ok=exist_ok)
            return SimpleNamespace(repo_id=repo_id)

        def upload_folder(self, *, repo_id, folder_path, commit_message, **_):
            shutil.copytree(folder_path, folder / repo_id, dirs_exist_ok=True)
            return f"hub:{repo_id}/{commit_message}"

    monkeypatch.setattr(hub_mixin, "HfApi", Api)
    monkeypatch.setattr(hub_mixin, "hf_hub_download", lambda repo_id, filename, **_: str(folder / repo_id / filename))
    monkeypatch.setattr(ours, "snapshot_download", lambda repo_id, **_: str(folder / repo_id))
    return folder


def test_there_and_back(tmp_path, hub):
    segmenter = load(weights_file(tmp_path / "w.safetensors"))
    assert segmenter.push_to_hub("me/mine", commit_message="first") == "hub:me/mine/first"
    names = sorted(path.name for path in (hub / "me" / "mine").iterdir())
    assert names == ["README.md", "config.json", "model.safetensors"]
    again = Segmenter.from_pretrained("me/mine")
    same_model(again, segmenter)
    assert (again.notes, again.source) == ({"step": 7}, "me/mine")
    same_model(load(hub / "me" / "mine"), segmenter)


def test_saved_with_a_card_and_pushed_at_once(tmp_path, hub):
    segmenter = load(weights_file(tmp_path / "w.safetensors"))
    url = segmenter.save_pretrained(tmp_path / "mine", push_to_hub=True, repo_id="me/other")
    assert url == "hub:me/other/Push model using huggingface_hub."
    card = (tmp_path / "mine" / "README.md").read_text()
    for words in ("library_name: cocanet", "pipeline_tag: image-segmentation", "# small", "on tetrominoes"):
        assert words in card
    same_model(Segmenter.from_pretrained("me/other"), segmenter)


def test_the_mixin_and_the_plain_way_write_the_same_files(tmp_path, hub, monkeypatch):
    segmenter = load(weights_file(tmp_path / "w.safetensors"))
    segmenter.save_pretrained(tmp_path / "with")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    segmenter.save_pretrained(tmp_path / "without")
    assert sorted(path.name for path in (tmp_path / "without").iterdir()) == ["config.json", "model.safetensors"]
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "with" / name).read_bytes() == (tmp_path / "without" / name).read_bytes()
    same_model(Segmenter.from_pretrained(tmp_path / "with"), segmenter)


def test_without_the_extra(tmp_path, monkeypatch):
    segmenter = load(weights_file(tmp_path / "w.safetensors"))
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    monkeypatch.delitem(sys.modules, "cocanet.io.hub_mixin", raising=False)
    for attempt in (
        lambda: Segmenter.from_pretrained("me/mine"),
        lambda: segmenter.push_to_hub("me/mine"),
        lambda: segmenter.save_pretrained(tmp_path / "mine", push_to_hub=True),
    ):
        with pytest.raises(ValueError, match=r"huggingface_hub, which is not installed: pip install 'cocanet\[hub\]'"):
            attempt()
