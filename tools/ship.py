"""`python -m tools.ship RUN NAME --commit HASH`: put a finished run's weights into the package, with their model card.

What the card says is measured now or read from the run, not typed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import tyro

from cocanet.cli.console import ConsoleWatcher
from cocanet.config import CocaNetConfig, FeedbackConfig, Preset
from cocanet.config.plain import first_difference, from_plain, to_plain
from cocanet.evaluation.result import Result
from cocanet.evaluation.settings import EvaluationSettings
from cocanet.evaluation.trained import evaluate_trained
from cocanet.figures.pictured import save_figure
from cocanet.metrics.table import SCORES, title
from cocanet.paper_scores import PAPER, data_set_of
from cocanet.presets import find
from cocanet.report.files import write_report
from cocanet.runs.folder import RunFolder
from cocanet.weights import read_weights, write_weights

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
    evaluation = evaluate_trained(weights, EvaluationSettings(), ConsoleWatcher()).result
    write_weights(weights, preset, last.weights, notes | {"scores": {name: evaluation.scores[name] for name in SCORES}})
    cards = ROOT / "docs/weights"
    cards.mkdir(parents=True, exist_ok=True)
    if folder:
        write_report((chosen.source,), chosen.source / "report", evaluate=False)
        (cards / f"{chosen.name}.png").write_bytes((chosen.source / "report" / "report.png").read_bytes())
    save_figure("grid", weights, out=cards / f"{chosen.name}-found.png")
    real = None
    if chosen.real:
        real = evaluate_trained(weights, EvaluationSettings(data=chosen.real), ConsoleWatcher()).result
    (cards / f"{chosen.name}.md").write_text(card(chosen, preset, notes, evaluation, real))


def with_feedback(preset: Preset, changes: Mapping[str, str]) -> Preset:
    assert isinstance(preset.model, CocaNetConfig), "only COCA-Net has feedback"
    plain = asdict(preset.model.feedback) | {name: json.loads(value) for name, value in changes.items()}
    feedback = from_plain(FeedbackConfig, plain, "--feedback")
    return replace(preset, model=replace(preset.model, feedback=feedback))


def sharpened(preset: Preset, factor: float) -> Preset:
    assert isinstance(preset.model, CocaNetConfig), "only COCA-Net has levels to sharpen"
    *below, last = preset.model.levels
    return replace(preset, model=replace(preset.model, levels=(*below, replace(last, sharpen=factor))))


def card(
    chosen: Ship,
    preset: Preset,
    notes: Mapping[str, Any],
    evaluation: Result,
    real: Result | None,
) -> str:
    published = PAPER.get(("coca-net", data_set_of(preset.data)))
    columns = ["score", "frozen test split", *(["real records"] if real else []), "paper"]
    rows = [columns, ["---"] * len(columns)]
    for name in SCORES:
        cells = [title(name), f"{evaluation.scores[name]:.3f}"]
        cells += [f"{real.scores[name]:.3f}"] if real else []
        rows.append([*cells, f"{published.scores[name].mean:.3f}" if published else "–"])
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    about_real = f"\nReal records: {real.images} images, sha256 `{real.data.sha256[:16]}…`.\n" if real else ""
    minutes = notes["seconds"] / 60
    return f"""# Weights: {chosen.name}

`cocanet.load("{chosen.name}")`, `coca segment {chosen.name} PATH… --out DIR`

| | |
|---|---|
| preset | `{preset.name}`{overrides(preset)} |
| command | `{chosen.command}` |
| commit | {chosen.commit} |
| seed | {notes["seed"]}; training scenes are generated from seed 1, validation 2, test 3 |
| trained for | {notes["step"]:,} steps, {notes["images"]:,} images, {minutes:.0f} minutes on two CPU cores |
| losses | {evaluation.provenance.losses} |
| decoder's masks | {evaluation.provenance.decoder_masks} |
| at evaluation | {evaluation.provenance.at_evaluation} |
| test split | {evaluation.images:,} generated scenes, sha256 `{evaluation.data.sha256[:16]}…` |

{table}
{about_real}
The paper's scores are of the published images, ours of scenes that we generate after them. The paper trained on
32,000,000 images, by reconstruction alone. One seed; `coca evaluate {chosen.name}` repeats the numbers.
{chosen.notes}

![image, reconstruction, truth, decoder masks and encoder masks of six validation scenes]({chosen.name}-found.png)

The curve is of the run itself{", as it was trained" if chosen.sharpen or chosen.feedback else ""}.

![validation scores against time and images]({chosen.name}.png)
"""


def overrides(preset: Preset) -> str:
    """What the weights have in another way than their preset has now."""
    difference = first_difference(to_plain(preset), to_plain(find(preset.name)))
    return f", but {difference}" if difference else ""


if __name__ == "__main__":
    main()
