"""`python -m tools.ship RUN NAME --commit HASH`: put a finished run's weights into the package, with their model card.

What the card says is measured now or read from the run, not typed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tyro

from cocanet.config import CocaNetConfig, Preset
from cocanet.config_file import first_difference, to_plain
from cocanet.evaluation.trained import EvaluationSettings, evaluate_trained
from cocanet.paper_scores import PAPER, SCORE_TITLES, data_set_of
from cocanet.presets import find
from cocanet.report.command import run_report
from cocanet.train.run_folder import RunFolder, Settings
from cocanet.weights import read_weights, write_weights

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Ship:
    run: tyro.conf.Positional[Path]
    name: tyro.conf.Positional[str]
    commit: str
    """The commit that the run was trained on."""
    command: str
    """The command that trained it."""
    real: Path | None = None
    """A store of published records to score them on as well."""
    sharpen: float | None = None
    """Of the last level at evaluation, if not as in the run."""
    notes: str = ""
    """What a user should know besides."""


def main() -> None:
    chosen = tyro.cli(Ship, prog="python -m tools.ship")
    settings = RunFolder(chosen.run).read_settings()
    if chosen.sharpen is not None:
        settings = replace(settings, preset=sharpened(settings.preset, chosen.sharpen))
    last = read_weights(RunFolder(chosen.run).last)
    notes = {name: last.notes[name] for name in ("step", "images", "seconds")}
    notes |= {"commit": chosen.commit, "command": chosen.command}
    weights = ROOT / "src/cocanet/shipped" / f"{chosen.name}.safetensors"
    write_weights(weights, settings.preset, last.weights, notes)
    evaluation = evaluate_trained(weights, EvaluationSettings(), say=print).to_plain()
    write_weights(weights, settings.preset, last.weights, notes | {"scores": evaluation["scores"]})
    cards = ROOT / "docs/weights"
    cards.mkdir(parents=True, exist_ok=True)
    run_report((chosen.run,), out=chosen.run / "report", evaluate=False)
    (cards / f"{chosen.name}.png").write_bytes((chosen.run / "report" / "report.png").read_bytes())
    real = None
    if chosen.real:
        real = evaluate_trained(weights, EvaluationSettings(data=chosen.real), say=print).to_plain()
    (cards / f"{chosen.name}.md").write_text(card(chosen, settings, notes, evaluation, real))


def sharpened(preset: Preset, factor: float) -> Preset:
    assert isinstance(preset.model, CocaNetConfig), "only COCA-Net has levels to sharpen"
    *below, last = preset.model.levels
    return replace(preset, model=replace(preset.model, levels=(*below, replace(last, sharpen=factor))))


def card(
    chosen: Ship,
    settings: Settings,
    notes: Mapping[str, Any],
    evaluation: Mapping[str, Any],
    real: Mapping[str, Any] | None,
) -> str:
    published = PAPER.get(("coca-net", data_set_of(settings.preset.data)))
    columns = ["score", "frozen test split", *(["real records"] if real else []), "paper"]
    rows = [columns, ["---"] * len(columns)]
    for name, title in SCORE_TITLES.items():
        cells = [title, f"{evaluation['scores'][name]:.3f}"]
        cells += [f"{real['scores'][name]:.3f}"] if real else []
        rows.append([*cells, f"{published.scores[name].mean:.3f}" if published else "–"])
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    about_real = f"\nReal records: {real['images']} images, sha256 `{real['data']['sha256'][:16]}…`.\n" if real else ""
    minutes = notes["seconds"] / 60
    return f"""# Weights: {chosen.name}

`cocanet.load("{chosen.name}")`, `coca segment {chosen.name} PATH… --out DIR`

| | |
|---|---|
| preset | `{settings.preset.name}`{overrides(settings)} |
| command | `{chosen.command}` |
| commit | {chosen.commit} |
| seed | {settings.run.seed}; training scenes are generated from seed 1, validation 2, test 3 |
| trained for | {notes["step"]:,} steps, {notes["images"]:,} images, {minutes:.0f} minutes on two CPU cores |
| test split | {evaluation["images"]:,} images, sha256 `{evaluation["data"]["sha256"][:16]}…` |

{table}
{about_real}
The paper trained on 32,000,000 images with a GPU. One seed; `coca evaluate {chosen.name}` repeats the numbers.
{chosen.notes}

The curve is of the run itself{", with the temperature it was trained at" if chosen.sharpen else ""}.

![validation scores against time and images]({chosen.name}.png)
"""


def overrides(settings: Settings) -> str:
    """What the run has in another way than its preset."""
    preset = find(settings.preset.name)
    difference = first_difference(to_plain(settings.preset), to_plain(preset))
    return f", but {difference}" if difference else ""


if __name__ == "__main__":
    main()
