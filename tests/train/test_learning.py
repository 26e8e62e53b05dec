"""That a COCA-Net learns to segment: the quick recipe's encoder, alone, on small Multi-dSprites."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import cocanet
from cocanet import presets
from cocanet.config import ConvConfig, DecoderConfig, FeedbackConfig, Preset, RunConfig
from cocanet.data.loader import Loader, LoaderConfig
from cocanet.data.sample import Sample
from cocanet.data.scenes import make_scenes
from cocanet.data.splits import open_split
from cocanet.data.store_writer import write_store
from cocanet.evaluation.protocol import evaluate
from cocanet.runs.folder import DataChoice, Settings
from cocanet.train.loop import train
from cocanet.weights import open_model

SIDE, STEPS = 32, 100


class Halved:
    """Multi-dSprites of half the side."""

    background_labels, has_labels = 1, True

    def __init__(self, count: int) -> None:
        self.scenes = make_scenes("multi-dsprites", count=count, seed=0)
        self.recipe = {"name": "halved multi-dsprites"}

    def __len__(self) -> int:
        return len(self.scenes)

    def __getitem__(self, index: int) -> Sample:
        image, labels, _ = self.scenes[index]
        return Sample(np.ascontiguousarray(image[::2, ::2]), np.ascontiguousarray(labels[::2, ::2]), {})


def preset() -> Preset:
    """A narrow multi-dsprites-cpu without feedback, whose encoder learns alone to the end."""
    quick = presets.find("multi-dsprites-cpu")
    first, last = quick.model.levels
    model = replace(
        quick.model,
        image_size=(SIDE, SIDE),
        dim=32,
        backbone=replace(quick.model.backbone, channels=32),
        levels=(replace(first, window=(4, 4), clusters=3), replace(last, depth=1)),
        decoder=DecoderConfig((SIDE, SIDE), (ConvConfig(4, 1),), octaves=1, frame="slot"),
        feedback=FeedbackConfig(),
    )
    course = replace(quick.train.stretched(STEPS), learning_rate=3e-3, warmup_steps=10, encoder_first=1.0)
    return replace(quick, name="halved", model=model, train=course)


@pytest.mark.slow
def test_the_encoder_alone_learns_to_part_sprites(tmp_path):
    """On scenes it has not seen; untrained, it parts what differs in colour as well as it happens to."""
    write_store(Halved(400), tmp_path / "data")
    made = preset()
    run = RunConfig(accelerator="cpu", validate_every=STEPS)
    train(Settings(made, run, DataChoice(str(tmp_path / "data"))), tmp_path / "run")
    split = open_split(made.data, "test", tmp_path / "data")
    before, after = (
        evaluate(model, Loader(split, LoaderConfig(20, shuffle=False)).epoch(), split.background_labels)
        for model in (cocanet.build(made, seed=0), open_model(tmp_path / "run").model)
    )
    assert after["encoder_ari_fg"] > max(0.82, before["encoder_ari_fg"] + 0.1)
    assert after["encoder_msc_fg"] > max(0.85, before["encoder_msc_fg"] + 0.15)
    assert after["encoder_ari"] > max(0.95, before["encoder_ari"] + 0.15)
