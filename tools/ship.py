"""`python -m tools.ship RUN NAME --commit HASH`: put a finished run's weights into the package, with their model card.

What the card says is measured now or read from the run, not typed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import tyro

from cocanet.cli.console import ConsoleWatcher
from cocanet.config import CocaNetConfig, FeedbackConfig, Preset
from cocanet.config.plain import from_plain
from cocanet.data.readers import PHOTOGRAPHS
from cocanet.evaluation.settings import EvaluationSettings
from cocanet.evaluation.trained import evaluate_trained
from cocanet.figures.pictured import save_figure
from cocanet.report.files import write_report
from cocanet.runs.folder import RunFolder
from cocanet.weights import read_weights, write_weights
from tools.card import Shipped, card

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Ship:
    source: tyro.conf.Positional[Path]
    """A finished run, or a weights file that is to be shipped with another evaluation."""
    name: tyro.conf.Positional[str]
    commit: str
    """The commit that the run was trained on."""
    command: str
    """The command that trained it."""
    data: Path | None = None
    """Photographs: the folder with the store `test` to score them on."""
    real: Path | None = None
    """A store of published records to score them on as well."""
    sharpen: float | None = None
    """Of the last level at evaluation, if not as in the run."""
    feedback: tuple[str, ...] = ()
    """Settings of feedback at evaluation, if not as in the run: rounds=8 noise=0.01 regroup=true …"""
    notes: str = ""
    """What a user should know besides."""


def main() -> None:
    chosen = tyro.cli(Ship, prog="python -m tools.ship")
    folder = RunFolder(chosen.source) if chosen.source.is_dir() else None
    last = read_weights(folder.last if folder else chosen.source)
    preset = last.preset
    if chosen.sharpen is not None:
        preset = sharpened(preset, chosen.sharpen)
    if chosen.feedback:
        preset = with_feedback(preset, dict(word.split("=", 1) for word in chosen.feedback))
    notes = {name: last.notes[name] for name in ("step", "images", "seconds")}
    seed = folder.read_settings().run.seed if folder else last.notes.get("seed", 0)
    notes |= {"commit": chosen.commit, "command": chosen.command, "seed": seed}
    weights = ROOT / "src/cocanet/shipped" / f"{chosen.name}.safetensors"
    write_weights(weights, preset, last.weights, notes)
    result = evaluate_trained(weights, EvaluationSettings(data=chosen.data), ConsoleWatcher()).result
    scores = {name: result.scores[name] for name in result.shown}
    write_weights(weights, preset, last.weights, notes | {"scores": scores})
    cards = ROOT / "docs/weights"
    cards.mkdir(parents=True, exist_ok=True)
    if folder:
        write_report((chosen.source,), chosen.source / "report", evaluate=False)
        (cards / f"{chosen.name}.png").write_bytes((chosen.source / "report" / "report.png").read_bytes())
    if preset.data.name not in PHOTOGRAPHS:
        # Published photographs are not ours to show.
        save_figure("grid", weights, out=cards / f"{chosen.name}-found.png")
    real = None
    if chosen.real:
        real = evaluate_trained(weights, EvaluationSettings(data=chosen.real), ConsoleWatcher()).result
    changed = bool(chosen.sharpen or chosen.feedback)
    drawn = (cards / f"{chosen.name}-published.png").exists()
    shipped = Shipped(chosen.name, preset, notes, result, real, chosen.notes, as_trained=not changed, published=drawn)
    (cards / f"{chosen.name}.md").write_text(card(shipped))


def with_feedback(preset: Preset, changes: Mapping[str, str]) -> Preset:
    assert isinstance(preset.model, CocaNetConfig), "only COCA-Net has feedback"
    plain = asdict(preset.model.feedback) | {name: json.loads(value) for name, value in changes.items()}
    feedback = from_plain(FeedbackConfig, plain, "--feedback")
    return replace(preset, model=replace(preset.model, feedback=feedback))


def sharpened(preset: Preset, factor: float) -> Preset:
    assert isinstance(preset.model, CocaNetConfig), "only COCA-Net has levels to sharpen"
    *below, last = preset.model.levels
    return replace(preset, model=replace(preset.model, levels=(*below, replace(last, sharpen=factor))))


if __name__ == "__main__":
    main()
