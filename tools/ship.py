"""`python -m tools.ship RUN NAME --commit HASH --command "…"`: ship a finished run's weights with the package.

Writes the weights, their card, and its pictures. The card's numbers are measured now or read from the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from cocanet.cli.progress import ConsoleProgress
from cocanet.evaluate.evaluation import Evaluation
from cocanet.evaluate.overrides import EvaluationSettings
from cocanet.evaluate.report import write_report
from cocanet.evaluate.trained import evaluate_trained
from cocanet.explain.figures.from_model import save_figure
from cocanet.io.run_folder import RunFolder
from cocanet.io.weights import read_weights, write_weights
from cocanet.presets import PHOTOGRAPHS
from tools.card import Shipped, card

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Ship:
    """Ship the weights of a finished run."""

    run: tyro.conf.Positional[Path]
    """The folder of the run."""
    name: tyro.conf.Positional[str]
    """The name of the weights."""
    commit: str
    """The commit that the run was trained on."""
    command: str
    """The command that trained it."""
    data: Path | None = None
    """For photographs: the folder with the store `test`."""
    first: int | None = None
    """Score only so many images of the test split."""
    published: Path | None = None
    """A store of published images to score the weights on as well."""
    remarks: str = ""
    """What else a user should know."""
    machine: str = "two CPU cores"
    """What the run was trained on."""


def ship(chosen: Ship, root: Path = ROOT) -> Path:
    """Write weights, pictures and card below `root`; returns the card's path."""
    last = read_weights(RunFolder(chosen.run).last)
    notes = {name: last.notes[name] for name in ("step", "images", "seconds")}
    seed = RunFolder(chosen.run).read_settings().run.seed
    notes |= {"commit": chosen.commit, "command": chosen.command, "seed": seed}
    weights = root / "src/cocanet/shipped" / f"{chosen.name}.safetensors"
    cards = root / "docs/weights"
    for folder in (weights.parent, cards):
        folder.mkdir(parents=True, exist_ok=True)
    write_weights(weights, last.preset, last.weights, notes)
    result = _score(weights, chosen.data, first=chosen.first, baselines=True)
    scores = {name: result.scores[name] for name in result.shown}
    write_weights(weights, last.preset, last.weights, notes | {"scores": scores})
    write_report((chosen.run,), chosen.run / "report", evaluate=False)
    (cards / f"{chosen.name}.png").write_bytes((chosen.run / "report" / "report.png").read_bytes())
    if last.preset.data.name not in PHOTOGRAPHS:  # photographs are not ours to show
        save_figure("grid", weights, out=cards / f"{chosen.name}-found.png")
    page = cards / f"{chosen.name}.md"
    shipped = Shipped(
        name=chosen.name,
        preset=last.preset,
        notes=notes,
        result=result,
        published=_score(weights, chosen.published) if chosen.published else None,
        remarks=chosen.remarks,
        machine=chosen.machine,
        first=chosen.first,
        published_picture=(cards / f"{chosen.name}-published.png").exists(),
    )
    page.write_text(card(shipped))
    return page


def _score(weights: Path, data: Path | None, *, first: int | None = None, baselines: bool = False) -> Evaluation:
    """The scores of the network's own masks: nothing is refined."""
    settings = EvaluationSettings(data=data, first=first, baselines=baselines)
    return evaluate_trained(weights, settings, ConsoleProgress())


if __name__ == "__main__":
    print(ship(tyro.cli(Ship, prog="python -m tools.ship")))
