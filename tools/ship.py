"""`python -m tools.ship RUN NAME --commit HASH`: put a finished run's weights into the package, with their model card.

The run must have been evaluated (`coca evaluate RUN`). What the card says is read from the run, not typed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from cocanet.config_file import to_plain
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
    """evaluation.json of the same weights on published records."""
    notes: str = ""
    """What a user should know besides."""


def main() -> None:
    chosen = tyro.cli(Ship, prog="python -m tools.ship")
    settings = RunFolder(chosen.run).read_settings()
    evaluation = json.loads((chosen.run / "evaluation.json").read_text())
    last = read_weights(RunFolder(chosen.run).last)
    if evaluation["step"] != last.notes["step"]:
        raise SystemExit(f"{chosen.run} was evaluated at step {evaluation['step']}, not at {last.notes['step']}")
    notes = {name: last.notes[name] for name in ("step", "images", "seconds")}
    notes |= {"commit": chosen.commit, "command": chosen.command, "scores": evaluation["scores"]}
    write_weights(ROOT / "src/cocanet/shipped" / f"{chosen.name}.safetensors", settings.preset, last.weights, notes)
    cards = ROOT / "docs/weights"
    cards.mkdir(parents=True, exist_ok=True)
    run_report((chosen.run,), out=chosen.run / "report")
    (cards / f"{chosen.name}.png").write_bytes((chosen.run / "report" / "report.png").read_bytes())
    (cards / f"{chosen.name}.md").write_text(card(chosen, settings, notes, evaluation))


def card(chosen: Ship, settings: Settings, notes: dict[str, Any], evaluation: dict[str, Any]) -> str:
    real = json.loads(chosen.real.read_text()) if chosen.real else None
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

![validation scores against time and images]({chosen.name}.png)
"""


def overrides(settings: Settings) -> str:
    """What the run has in another way than its preset."""
    preset = find(settings.preset.name)
    before, now = to_plain(preset.train), to_plain(settings.preset.train)
    changed = [f"{name} {now[name]}" for name in now if now[name] != before[name]]
    if settings.preset.model != preset.model:
        changed.append("another model (see the header of the weights file)")
    return f", with {', '.join(changed)}" if changed else ""


if __name__ == "__main__":
    main()
