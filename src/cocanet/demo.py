"""`coca demo`: the shipped weights on scenes they have never seen."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from cocanet.data.loader import Loader, LoaderConfig
from cocanet.data.scenes import make_scenes
from cocanet.data.store_writer import write_store
from cocanet.evaluation.protocol import SCORES, evaluate
from cocanet.evaluation.trained import EvaluationSettings
from cocanet.figures.command import COUNTS, Kind, draw, pick
from cocanet.figures.save import save
from cocanet.paper_scores import PAPER, SCORE_TITLES, data_set_of
from cocanet.pretrained import open_model, shipped_names
from cocanet.weights import Trained

SCENES = 300
PICTURES: tuple[Kind, ...] = ("grid", "hierarchy", "compactness", "slots")


def run_demo(
    out: Path, names: Sequence[str] = (), seed: int | None = None, scenes: int = SCENES
) -> dict[str, dict[str, float]]:
    """Make fresh scenes, find their objects, print the scores beside the paper's and draw them; returns the scores.

    `names` are of weights that come with the package, all of them by default.
    """
    console = Console(highlight=False)
    # No two demos alike, and none on a scene that was trained on.
    seed = 1000 + time.time_ns() % 1_000_000 if seed is None else seed
    names = names or shipped_names()
    trained = {name: open_model(name) for name in names}
    scores = {name: _show(name, trained[name], out / name, seed, scenes, console) for name in names}
    console.print(f"On your own images: `coca segment {names[0]} PATH… --out DIR`; to train on them: `coca train auto`")
    return scores


def _show(name: str, trained: Trained, out: Path, seed: int, scenes: int, console: Console) -> dict[str, float]:
    data = trained.preset.data
    console.print(f"[bold]{name}[/bold]: {scenes} new scenes (seed {seed}), never seen in training")
    source = make_scenes(data.name, count=scenes, seed=seed, max_objects=data.max_objects)
    store = write_store(source, out / f"scenes-{seed}")
    batches = Loader(store, LoaderConfig(EvaluationSettings.batch_size, shuffle=False, drop_last=False)).epoch()
    start = time.perf_counter()
    scores = evaluate(trained.model, batches, data.background_labels)
    speed = scenes / (time.perf_counter() - start)
    console.print(_table(trained, scores, f"{name}: {scenes} new scenes, {speed:.0f} images/s"))
    for kind in PICTURES:
        picture = out / f"{kind}.png"
        save(draw(kind, trained.model, pick(store, COUNTS[kind], 0)), picture)
        console.print(f"wrote {picture}")
    return scores


def _table(trained: Trained, scores: dict[str, float], title: str) -> Table:
    paper = PAPER["coca-net", data_set_of(trained.preset.data)].scores
    table = Table(title=title)
    table.add_column("score")
    table.add_column(f"these weights, {trained.notes['images']:,} images", justify="right")
    table.add_column("paper, 32,000,000 images", justify="right")
    for name in SCORES:
        table.add_row(SCORE_TITLES[name], f"{scores[name]:.3f}", f"{paper[name].mean:.3f}")
    return table
