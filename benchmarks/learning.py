"""`python -m benchmarks.learning`: what COCA-Net learns of Tetrominoes in 750 steps, on several seeds."""

from __future__ import annotations

import statistics
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import tyro
from rich.console import Console
from rich.table import Table

from cocanet.data.loader import Loader, LoaderConfig
from cocanet.data.scenes.tetrominoes import Tetrominoes
from cocanet.demo import PAPER, demo_preset, draw
from cocanet.evaluate import SCORES, evaluate
from cocanet.models.build import build
from cocanet.train.loop import fit

TEST_SEED = 12345


@dataclass(frozen=True)
class Learning:
    """Train the quick recipe from nothing and score it on new scenes."""

    seeds: int = 3
    steps: int = 750
    warmup_steps: int = 250
    test_images: int = 2000
    out: Path = Path("runs/learning")


def main() -> None:
    chosen = tyro.cli(Learning, prog="python -m benchmarks.learning")
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    console = Console(width=110)
    results = []
    for seed in range(chosen.seeds):
        start = time.perf_counter()
        results.append(learn(chosen, seed))
        minutes = (time.perf_counter() - start) / 60
        found = "  ".join(f"{name} {results[-1][name]:.3f}" for name in SCORES)
        console.print(f"seed {seed}, {minutes:.1f} minutes: {found}")
    console.print(summary(results, chosen))


def learn(chosen: Learning, seed: int) -> dict[str, float]:
    preset = demo_preset()
    train = replace(preset.train, steps=chosen.steps, warmup_steps=chosen.warmup_steps)
    model = build(preset, seed=seed)
    scenes = Loader(Tetrominoes(chosen.steps * train.batch_size, seed=seed), LoaderConfig(train.batch_size, seed=seed))
    fit(model, (batch.images for batch in scenes), train)
    config = LoaderConfig(50, shuffle=False, drop_last=False)
    test = list(Loader(Tetrominoes(chosen.test_images, seed=TEST_SEED), config).epoch())
    draw(model, test[0], preset.data.background_labels, chosen.out / f"seed{seed}.png")
    return evaluate(model, test, preset.data.background_labels)


def summary(results: list[dict[str, float]], chosen: Learning) -> Table:
    table = Table(title=f"Tetrominoes, {chosen.steps} steps, {chosen.seeds} seeds, {chosen.test_images} new scenes")
    for column in ("score", "mean", "standard deviation", "paper, 500,000 steps of 64"):
        table.add_column(column, justify="left" if column == "score" else "right")
    for name in SCORES:
        values = [result[name] for result in results]
        spread = statistics.stdev(values) if len(values) > 1 else float("nan")
        table.add_row(name, f"{statistics.mean(values):.3f}", f"{spread:.3f}", f"{PAPER[name]:.3f}")
    return table


if __name__ == "__main__":
    main()
