"""`coca demo`: COCA-Net learns Tetrominoes from nothing while you watch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from cocanet import presets
from cocanet.config import Preset, RunConfig, TrainConfig
from cocanet.data.loader import Batch, Loader, LoaderConfig
from cocanet.data.scenes.tetrominoes import Tetrominoes
from cocanet.evaluation.protocol import SCORES, evaluate
from cocanet.figures import discovery_grid, save
from cocanet.models.model import ObjectModel
from cocanet.paper_scores import PAPER as PUBLISHED
from cocanet.train.loop import train
from cocanet.train.run_folder import DataChoice, Settings
from cocanet.weights import open_trained

PAPER = {name: score.mean for name, score in PUBLISHED["coca-net", "tetrominoes"].scores.items()}
TEST_IMAGES = 200


def demo_preset() -> Preset:
    """Tetrominoes with the quick recipe: Fourier positions, a higher learning rate, small batches."""
    preset = presets.with_fourier_positions(presets.tetrominoes())
    quick = TrainConfig(
        batch_size=16, learning_rate=1e-3, decay="cosine", clip_norm=1.0, weight_decay=0.0, crop_padding=0
    )
    return replace(preset, train=quick)


def run_demo(out: Path, minutes: float = 1.0, seed: int = 0) -> dict[str, float]:
    """Train for about `minutes`, print the scores beside the paper's and draw fresh scenes; returns the scores."""
    console = Console()
    preset, run = demo_preset(), out / "run"
    settings = Settings(preset, RunConfig(seed=seed, minutes=minutes), DataChoice())
    console.print(f"COCA-Net learns {preset.data.name} without labels, for {minutes:g} minutes")
    train(settings, run)
    model = open_trained(run).model
    test = list(Loader(Tetrominoes(TEST_IMAGES, seed=seed + 1), LoaderConfig(50, shuffle=False)).epoch())
    scores = evaluate(model, test, preset.data.background_labels)
    console.print(_table(scores))
    picture = out / "tetrominoes.png"
    draw(model, test[0], preset.data.background_labels, picture)
    console.print(f"Wrote {picture}: image, reconstruction, truth, and what decoder and encoder found.")
    return scores


def _table(scores: dict[str, float]) -> Table:
    table = Table(title=f"Scores on {TEST_IMAGES} new scenes")
    table.add_column("score")
    table.add_column("now", justify="right")
    table.add_column("paper, 500,000 steps of 64", justify="right")
    for name in SCORES:
        table.add_row(name.replace("_", " "), f"{scores[name]:.3f}", f"{PAPER[name]:.3f}")
    return table


def draw(model: ObjectModel, batch: Batch, background_labels: int, path: Path) -> None:
    """Write a picture of what the model finds in the first scenes of a batch."""
    images, labels = batch.images[:6], batch.labels[:6]
    with torch.inference_mode():
        output = model.eval()(images)
    save(discovery_grid(images, labels, output, background_labels), path)
