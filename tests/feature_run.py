"""`python -m tests.feature_run FOLDER`: a run on features of a timm ViT with random weights, from training to export.

It is a process of its own: the shape checks that tests run with cannot be traced, and timm is imported without the
torchvision that it asks for.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from tests.features import TINY_VIT, without_torchvision, write_random_weights
from tests.small_runs import OneObject

FLAGS = (
    *("--model.backbone.features", TINY_VIT, "--model.backbone.input-size", "64", "64"),
    *("--model.image-size", "32", "32", "--steps", "2", "--batch-size", "4", "--log-every", "1"),
    *("--model.levels.0.window", "4", "4", "--model.levels.0.clusters", "3", "--model.levels.0.temperature", "1"),
    *("--model.levels.1.window", "8", "8"),
)
"""The 4×4 patches of a small photograph are enlarged to 32×32 cells. Within a window of 2×2 cells they are so nearly
the same that rounding decides its clusters, which an export cannot repeat."""


def coca(*arguments: object) -> None:
    """A command that succeeds."""
    from cocanet.cli import main

    try:
        main([str(each) for each in arguments])
    except SystemExit as end:
        if end.code:
            raise


def run(folder: Path) -> None:
    import timm

    import cocanet
    from cocanet.data.store_writer import write_store

    os.environ["COCANET_CACHE"] = str(folder / "cache")
    torch.manual_seed(0)
    weights = timm.create_model(TINY_VIT, img_size=(64, 64)).state_dict()
    weights["patch_embed.proj.weight"] *= 20  # as small as they are drawn, features hardly depend on the image
    write_random_weights(TINY_VIT, weights)
    write_store(OneObject(20, name="birds"), folder / "data")
    out = folder / "run"
    coca("train", "birds-features", "--data", folder / "data", "--out", out, *FLAGS)
    coca("evaluate", out, "--out", folder / "scores")
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8)).save(folder / "a.png")
    coca("segment", out, folder / "a.png", "--out", folder / "segments")
    segmenter = cocanet.load(out)
    explained = segmenter.explain(folder / "a.png")
    assert explained.slots.images.shape == (3, 32, 32, 3)
    assert [level.labels.shape for level in explained.levels] == [(40, 50)] * 2
    coca("export", out, "--out", folder / "objects.onnx")
    labels = segmenter.segment(folder / "a.png").labels
    exported = cocanet.load(folder / "objects.onnx").segment(folder / "a.png").labels
    print("labels that differ in the exported model:", int((labels != exported).sum()))


if __name__ == "__main__":
    with without_torchvision():
        run(Path(sys.argv[1]))
