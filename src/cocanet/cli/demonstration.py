"""The shipped weights on scenes they have never seen."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from cocanet.data.loader import GatherSource, Loader, LoaderConfig
from cocanet.data.readers import PHOTOGRAPHS
from cocanet.data.scenes import make_scenes
from cocanet.data.scenes.gl import RendererUnavailableError
from cocanet.data.store_writer import write_store
from cocanet.evaluation.protocol import evaluate
from cocanet.evaluation.settings import EvaluationSettings
from cocanet.figures import KINDS, save
from cocanet.figures.pictured import draw, pick
from cocanet.metrics import table as scores_table
from cocanet.paper_scores import PAPER, data_set_of
from cocanet.weights import Trained, open_model, shipped_names
from cocanet.words import plural

SCENES = 120
RENDERED_PIXELS = 24 * 64 * 64
"""Scenes that must be rendered are fewer, and of the large ones fewest: this many pixels in all."""


def run_demo(
    out: Path, names: Sequence[str] = (), seed: int | None = None, scenes: int | None = None
) -> dict[str, dict[str, float]]:
    """Make fresh scenes, find their objects, print the scores beside the paper's and draw them; returns the scores.

    `names` are of weights that come with the package, by default all whose scenes can be made; those whose scenes
    cannot be rendered here are left out then. Without `scenes` there are as many as a minute has room for.
    """
    console = Console(highlight=False)
    # No two demos alike, and none on a scene that was trained on.
    seed = 1000 + time.time_ns() % 1_000_000 if seed is None else seed
    for name in names:
        if name in PHOTOGRAPHS:
            raise ValueError(f"{name} are photographs, which cannot be made: `coca segment {name} PATH… --out DIR`")
    trained = {name: open_model(name) for name in names or with_scenes()}
    scores = {}
    for name, weights in trained.items():
        try:
            scores[name] = _show(name, weights, out / name, seed, scenes, console)
        except RendererUnavailableError as error:
            if names:
                raise
            console.print(f"[bold]{name}[/bold] left out: {error}", soft_wrap=True)
    first = next(iter(trained))
    console.print(f"On your own images: `coca segment {first} PATH… --out DIR`; to train on them: `coca train auto`")
    return scores


def with_scenes() -> list[str]:
    """Shipped weights whose scenes can be made; photographs cannot."""
    return [name for name in shipped_names() if name not in PHOTOGRAPHS]


def _show(name: str, trained: Trained, out: Path, seed: int, scenes: int | None, console: Console) -> dict[str, float]:
    data = trained.preset.data
    scenes = scenes or _scenes(trained)
    console.print(f"[bold]{name}[/bold]: {plural(scenes, 'new scene')} (seed {seed}), never seen in training")
    source = make_scenes(data.name, count=scenes, seed=seed, max_objects=data.max_objects)
    store = write_store(source, out / f"scenes-{seed}")
    at_a_time = EvaluationSettings().images_at_a_time(trained.preset.model.image_size)
    batches = Loader(store, LoaderConfig(at_a_time, shuffle=False, drop_last=False)).epoch()
    start = time.perf_counter()
    scores = evaluate(trained.model, batches, data.background_labels)
    speed = scenes / (time.perf_counter() - start)
    console.print(_table(trained, scores, f"{name}: {plural(scenes, 'new scene')}, {speed:.0f} images/s"))
    every = (name for name, kind in KINDS.items() if not kind.by_tokens)
    for kind in every if isinstance(source, GatherSource) else ("grid",):
        picture = out / f"{kind}.png"
        save(draw(kind, trained.model, pick(store, KINDS[kind].count, 0)), picture)
        console.print(f"wrote {picture}")
    return scores


def _scenes(trained: Trained) -> int:
    height, width = trained.preset.model.image_size
    drawn = isinstance(make_scenes(trained.preset.data.name, count=1, seed=0), GatherSource)
    return SCENES if drawn else RENDERED_PIXELS // (height * width)


def _table(trained: Trained, scores: dict[str, float], title: str) -> Table:
    paper = PAPER["coca-net", data_set_of(trained.preset.data)].scores
    table = Table(title=title)
    table.add_column("score")
    table.add_column(f"these weights, {plural(trained.notes['images'], 'image')}", justify="right")
    table.add_column("paper, 32,000,000 images", justify="right")
    for name in scores_table.SCORES:
        table.add_row(scores_table.title(name), f"{scores[name]:.3f}", f"{paper[name].mean:.3f}")
    return table
