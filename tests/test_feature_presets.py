"""Presets on pretrained features: alike in everything but the model, and apart from the published ones."""

from __future__ import annotations

import pytest
import torch

from cocanet import presets
from cocanet.cli.train import parse
from cocanet.config import Preset
from cocanet.config.bounds import check_bounds
from cocanet.config.serialization import from_dict, to_dict
from cocanet.evaluate.compare import models_for, preset_name
from cocanet.evaluate.provenance import provenance
from cocanet.models.build import build
from cocanet.presets.auto import choose
from tests.cli.test_train import refused
from tests.train.runs import noise_store


@pytest.mark.parametrize("data_set", ["birds-features", "flowers-features"])
def test_models_differ_in_nothing_else(data_set):
    found = [presets.find(preset_name(model, data_set)) for model in models_for(data_set)]
    assert [preset.model.kind for preset in found] == ["coca-net", "slot-attention", "bo-qsa"]
    for preset in found:
        shared = (preset.model.backbone, preset.model.decoder, preset.model.slots, preset.train, preset.data)
        first = found[0]
        assert shared == (first.model.backbone, first.model.decoder, first.model.slots, first.train, first.data)
        check_bounds(to_dict(preset)["model"], "here")
        assert from_dict(Preset, to_dict(preset), "here") == preset
        with torch.device("meta"):
            build(preset)
        facts = provenance(preset, "published", 1, "0", refined=False)
        assert "efficientnet-lite0, which was trained with ImageNet's labels" in facts.training
        assert facts.decoder == "feature decoder; its images are the mean colours of its masks"


def test_no_variant_needs_another_decoder():
    assert presets.find("birds-features-dyna").model.dynamic is not None
    with pytest.raises(ValueError, match="needs a spatial broadcast decoder; this model has a feature decoder"):
        presets.find("birds-features-fast")


def test_auto_on_features(tmp_path, capsys):
    data = noise_store(tmp_path / "photos", size=(64, 96))
    command = parse(["auto", "--data", str(data), "--features", "--slots", "5"])
    model = command.model
    assert model == choose((64, 96), 5, features=True).preset.model
    assert (model.image_size, model.slots, model.backbone.features) == ((64, 96), 5, "efficientnet-lite0")
    said = capsys.readouterr().out
    assert "features of efficientnet-lite0 (--features), trained with ImageNet's labels" in " ".join(said.split())
    error = refused(capsys, ["train", "birds-features", "--model.backbone.features", "../x", "--data", str(data)])
    assert "features names efficientnet-lite0 or a model of timm; got '../x'" in error
