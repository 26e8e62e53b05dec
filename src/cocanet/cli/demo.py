"""`coca demo`: the shipped weights on scenes they have never seen."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from cocanet.presets import PHOTOGRAPHS
from cocanet.words import plural

if TYPE_CHECKING:
    from rich.table import Table

    from cocanet.cli.progress import ConsoleProgress
    from cocanet.io.trained import Trained
    from cocanet.predict.postcard import Scene

SCENES = 120
POSTCARD, COLUMNS, FEWEST_OBJECTS = "objects.png", 5, 3
"""The picture of all sets, its images in a row, and objects in each of them at least, if there are such scenes."""
RENDERED_PIXELS = 24 * 64 * 64
"""Rendered scenes are fewer: this many pixels in all."""


@dataclass(frozen=True)
class Demo:
    """Find the objects of new scenes with the shipped weights: scores and pictures."""

    names: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="NAME…")] = ()
    """Names of shipped weights; all of them if left out."""
    out: Path = Path("demo")
    """Folder for the scenes and the pictures."""

    def run(self) -> None:
        run_demo(self.out, self.names)


def run_demo(
    out: Path, names: Sequence[str] = (), seed: int | None = None, scenes: int | None = None
) -> dict[str, dict[str, float]]:
    """Score weights on new scenes, print the scores beside the paper's, and draw pictures; returns the scores.

    Without `names`, all shipped weights whose scenes can be generated on this machine are shown. Without `scenes`,
    there are as many as take about a minute.
    """
    from cocanet.cli.progress import ConsoleProgress
    from cocanet.data.generators.gl import RendererUnavailableError
    from cocanet.io.trained import open_model

    progress = ConsoleProgress()
    # A new seed for each demo, and none of the seeds of the training scenes.
    seed = 1000 + time.time_ns() % 1_000_000 if seed is None else seed
    for name in names:
        if name in PHOTOGRAPHS:
            raise ValueError(f"{name} are photographs and cannot be generated: `coca segment {name} PATH… --out DIR`")
    trained = {name: open_model(name) for name in names or with_scenes()}
    scores, rows = {}, []
    for name, weights in trained.items():
        try:
            scores[name] = _show(name, weights, out / name, seed, scenes, progress)
            rows.append(_scenes_of(weights, out / name / f"scenes-{seed}"))
        except RendererUnavailableError as error:
            if names:
                raise
            progress.say(f"{name} left out: {error}")
    if rows:
        picture = _save_postcard(rows, out / POSTCARD)
        progress.say(f"all in one picture: {picture}", "bold")
    first = next(iter(trained))
    progress.say(f"On your own images: `coca segment {first} PATH… --out DIR`; to train on them: `coca train auto`")
    return scores


def with_scenes() -> list[str]:
    """Shipped weights whose scenes can be generated; photographs cannot."""
    from cocanet.io.trained import shipped_names

    return [name for name in shipped_names() if name not in PHOTOGRAPHS]


def _show(
    name: str, trained: Trained, out: Path, seed: int, scenes: int | None, progress: ConsoleProgress
) -> dict[str, float]:
    from cocanet.data.generators import make_scenes
    from cocanet.data.loader import GatherSource, Loader, LoaderConfig
    from cocanet.data.store_writer import write_store
    from cocanet.evaluate.overrides import EvaluationSettings
    from cocanet.evaluate.protocol import evaluate
    from cocanet.explain.figures import KINDS, save
    from cocanet.explain.figures.from_model import draw, pick

    data, (height, width) = trained.preset.data, trained.preset.model.image_size
    drawn = isinstance(make_scenes(data.name, count=1, seed=0), GatherSource)
    count = scenes or (SCENES if drawn else RENDERED_PIXELS // (height * width))
    progress.say(f"{name}: {plural(count, 'new scene')} (seed {seed}), never seen in training")
    source = make_scenes(data.name, count=count, seed=seed, max_objects=data.max_objects)
    store = write_store(source, out / f"scenes-{seed}")
    batch = EvaluationSettings().images_at_a_time((height, width))
    batches = Loader(store, LoaderConfig(batch, shuffle=False, drop_last=False)).epoch()
    start = time.perf_counter()
    scores = evaluate(trained.model, batches, data.background_labels)
    speed = count / (time.perf_counter() - start)
    progress.console.print(_table(trained, scores, f"{name}: {plural(count, 'new scene')}, {speed:.0f} images/s"))
    kinds = [kind for kind in KINDS if not KINDS[kind].token_decoder] if drawn else ["grid"]
    for kind in kinds:
        picture = out / f"{kind}.png"
        save(draw(kind, trained.model, pick(store, KINDS[kind].count, 0)), picture)
        progress.say(f"wrote {picture}")
    return scores


def _scenes_of(trained: Trained, folder: Path) -> list[Scene]:
    """The first scenes of a store that show several objects, with the objects that were found."""
    from cocanet.data.store import Store
    from cocanet.predict.postcard import Scene
    from cocanet.predict.segmenter import Segmenter

    segmenter = Segmenter(trained.model, trained.preset, trained.notes)
    store = Store(folder, verify=False)
    samples = [store[index] for index in range(min(len(store), 4 * COLUMNS))]
    samples.sort(key=lambda sample: -int(sample.labels.max() >= store.background_labels + FEWEST_OBJECTS - 1))
    found = segmenter.segment([sample.image for sample in samples[:COLUMNS]])
    assert isinstance(found, list)
    return [Scene(each.image, each.labels) for each in found]


def _save_postcard(rows: list[list[Scene]], path: Path) -> Path:
    from cocanet.predict.postcard import draw_postcard

    count = sum(int(scene.labels.max()) for row in rows for scene in row)
    line = f"{plural(count, 'object')} in {plural(sum(map(len, rows)), 'image')} that it had never seen, no labels"
    draw_postcard(rows, "COCA-Net finds objects without being told what they are", line).save(path)
    return path


def _table(trained: Trained, scores: dict[str, float], title: str) -> Table:
    from rich.table import Table

    from cocanet.metrics.table import SCORES
    from cocanet.metrics.table import title as title_of
    from cocanet.paper_scores import PAPER, data_set_of

    paper = PAPER["coca-net", data_set_of(trained.preset.data)].scores
    table = Table(title=title)
    table.add_column("score")
    table.add_column(f"these weights, {plural(trained.notes['images'], 'image')}", justify="right")
    table.add_column("paper, 32,000,000 images", justify="right")
    for name in SCORES:
        table.add_row(title_of(name), f"{scores[name]:.3f}", f"{paper[name].mean:.3f}")
    return table
