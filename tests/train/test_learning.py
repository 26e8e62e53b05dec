"""That a COCA-Net learns to segment by reconstruction alone: sixty steps of the fast recipe on Tetrominoes."""

from __future__ import annotations

from dataclasses import replace

import pytest

import cocanet
from cocanet import presets
from cocanet.config import RunConfig
from cocanet.data.generators import make_scenes
from cocanet.data.loader import Loader, LoaderConfig
from cocanet.data.splits import open_split
from cocanet.data.store_writer import write_store
from cocanet.evaluate.protocol import evaluate
from cocanet.io.run_folder import DataChoice, Settings
from cocanet.io.trained import open_model
from cocanet.train.loop import train

STEPS = 60


@pytest.mark.slow
def test_reconstruction_alone_teaches_the_encoder_to_separate_pieces(tmp_path):
    """On scenes that it has not seen, beside the untrained encoder."""
    write_store(make_scenes("tetrominoes", count=500, seed=0), tmp_path / "data")
    fast = presets.find("tetrominoes-fast")
    fast = replace(fast, train=replace(fast.train, steps=STEPS))
    run = RunConfig(accelerator="cpu", validate_every=STEPS)
    train(Settings(fast, run, DataChoice(str(tmp_path / "data"))), tmp_path / "run")
    split = open_split(fast.data, "test", tmp_path / "data")
    before, after = (
        evaluate(model, Loader(split, LoaderConfig(30, shuffle=False)).epoch(), split.background_labels)
        for model in (cocanet.build(fast, seed=0), open_model(tmp_path / "run").model)
    )
    assert after["encoder_ari_fg"] > before["encoder_ari_fg"] + 0.05
    assert after["encoder_ari"] > max(0.85, before["encoder_ari"] + 0.1)
    assert after["decoder_ari_fg"] > before["decoder_ari_fg"] + 0.3
    assert after["mse"] < 0.04
