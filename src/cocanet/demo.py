"""`coca demo`: COCA-Net learns Tetrominoes from nothing while you watch."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from cocanet import presets
from cocanet.config import Preset, TrainConfig
from cocanet.data.loader import Batch, Loader, LoaderConfig
from cocanet.data.scenes.tetrominoes import Tetrominoes
from cocanet.evaluate import SCORES, evaluate
from cocanet.figures import discovery_grid, save
from cocanet.models.build import build
from cocanet.models.coca_net import CocaNet
from cocanet.train.loop import fit

PAPER = dict(zip(SCORES, (0.99, 0.98, 0.99, 0.99, 0.74, 0.70, 0.71, 0.75, 0.001), strict=True))
TEST_IMAGES = 200


def demo_preset() -> Preset:
    """Tetrominoes with the quick recipe: Fourier positions, a higher learning rate, small batches."""
    preset = presets.with_fourier_positions(presets.tetrominoes())
    quick = TrainConfig(
        batch_size=16, learning_rate=1e-3, decay="cosine", clip_norm=1.0, weight_decay=0.0, crop_padding=0
    )
    return replace(preset, train=quick)


def run_demo(out: Path, seconds: float = 60.0, seed: int = 0) -> dict[str, float]:
    """Train for about `seconds`, print the scores beside the paper's and draw fresh scenes; returns the scores."""
    console = Console()
    preset = demo_preset()
    model = build(preset, seed=seed)
    scenes = Loader(Tetrominoes(20_000, seed=seed), LoaderConfig(preset.train.batch_size, seed=seed))
    steps = _affordable_steps(model, scenes, seconds)
    train = replace(preset.train, steps=steps, warmup_steps=steps // 3)
    console.print(f"COCA-Net learns {preset.data.name} without labels: {steps} steps of {train.batch_size} scenes")
    _fit_with_progress(model, scenes, train, console)
    test = list(Loader(Tetrominoes(TEST_IMAGES, seed=seed + 1), LoaderConfig(50, shuffle=False)).epoch())
    scores = evaluate(model, test, preset.data.background_labels)
    console.print(_table(scores))
    picture = out / "tetrominoes.png"
    draw(model, test[0], preset.data.background_labels, picture)
    console.print(f"Wrote {picture}: image, reconstruction, truth, and what decoder and encoder found.")
    return scores


def _affordable_steps(model: CocaNet, scenes: Loader, seconds: float) -> int:
    """How many steps fit, from the time of a few on a model that starts afresh afterwards."""
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    trial = TrainConfig(steps=2, learning_rate=1e-6)
    fit(model, _images(scenes), trial)
    start = time.perf_counter()
    fit(model, _images(scenes), trial)
    step = (time.perf_counter() - start) / trial.steps
    model.load_state_dict(weights)
    return max(3, round(seconds / step))


def _images(scenes: Loader) -> Iterator[torch.Tensor]:
    return (batch.images for batch in scenes)


def _fit_with_progress(model: CocaNet, scenes: Loader, train: TrainConfig, console: Console) -> None:
    columns = (
        TextColumn("step {task.completed}/{task.total}"),
        BarColumn(),
        TextColumn("loss {task.fields[loss]:.4f}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("train", total=train.steps, loss=float("nan"))
        fit(model, _images(scenes), train, lambda _, loss: progress.update(task, advance=1, loss=loss))


def _table(scores: dict[str, float]) -> Table:
    table = Table(title=f"Scores on {TEST_IMAGES} new scenes")
    table.add_column("score")
    table.add_column("now", justify="right")
    table.add_column("paper, 500,000 steps of 64", justify="right")
    for name in SCORES:
        table.add_row(name.replace("_", " "), f"{scores[name]:.3f}", f"{PAPER[name]:.3f}")
    return table


def draw(model: CocaNet, batch: Batch, background_labels: int, path: Path) -> None:
    """Write a picture of what the model finds in the first scenes of a batch."""
    images, labels = batch.images[:6], batch.labels[:6]
    with torch.inference_mode():
        output = model.eval()(images)
    save(discovery_grid(images, labels, output, background_labels), path)
