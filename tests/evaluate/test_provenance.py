"""The facts beside every score."""

from __future__ import annotations

from dataclasses import replace

from cocanet import presets
from cocanet.config import Reconstruction, Stage, TrainConfig
from cocanet.evaluate.provenance import provenance, training
from tests.small_runs import tiny_preset


def test_training_names_losses_and_stages():
    assert training(presets.clevr6()) == "reconstruction"
    assert training(presets.birds()) == "token likelihood"
    assert training(presets.find("genesis-v2-clevr6")) == "image likelihood and KL divergence"
    stages = (
        Stage(share=0.75, image_size=(16, 16), losses=(Reconstruction(weight=2.0, pixels=0.25),)),
        Stage(share=0.25, trains=("decoder",)),
    )
    staged = replace(presets.with_fast_recipe(tiny_preset()), train=TrainConfig(stages=stages))
    assert training(staged) == (
        "2 stages: 75% 2 × reconstruction of 25% of the pixels at 16×16; 25% reconstruction, decoder only"
    )


def test_decoder_and_masks_are_named():
    facts = {
        "clevr6": "spatial broadcast decoder",
        "clevr6-fast": "slot-centric spatial broadcast decoder; each slot carries the shape of its encoder mask; "
        "encoder masks are a prior of its masks",
        "bo-qsa-birds": "autoregressive token decoder; its masks are attention of the tokens to the slots",
    }
    for name, expected in facts.items():
        found = provenance(presets.find(name), "published", 1, "ab", refined=False)
        assert found.decoder == expected
        assert found.images == "1 published image, sha256 ab"
        assert found.masks == "masks as the network predicts them"
    assert replace(found, masks="") == replace(
        provenance(presets.find(name), "published", 1, "ab", refined=True), masks=""
    )
