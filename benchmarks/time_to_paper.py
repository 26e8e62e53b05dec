"""`python -m benchmarks.time_to_paper [DATASET…]`: minutes until the network's own masks score as the paper's.

Each data set is trained with its `-fast` preset and validated as it goes. Once the encoder masks reach the paper's
encoder ARI-FG and mSC-FG on validation scenes, the frozen test split decides; until it agrees, training goes on. Scores
count as reached when they round to the paper's two digits. The decoder's time is that of its ARI-FG alone. Evaluation
is not part of the time, validation is. `--finished RUN…` gives rows of runs that have ended: each is scored once, and
its time is an upper bound, `≤`.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import tyro

from cocanet import presets
from cocanet.cli.progress import ConsoleProgress
from cocanet.config import RunConfig
from cocanet.evaluate.overrides import EvaluationSettings
from cocanet.evaluate.trained import evaluate_trained
from cocanet.io.run_folder import DataChoice, RunFolder, Settings
from cocanet.paper_scores import PAPER
from cocanet.train.checkpoint import TrainState, read_checkpoint
from cocanet.train.interrupt import Stopped
from cocanet.train.loop import train

DATA_SETS = tuple(presets.PRESETS)
ENCODER = ("encoder_ari_fg", "encoder_msc_fg")
DECODER = ("decoder_ari_fg",)
COLUMNS = (
    "| date | commit | command | encoder, min | decoder, min | images "
    "| encoder ARI-FG | encoder mSC-FG | decoder ARI-FG |"
)


@dataclass(frozen=True)
class Choices:
    """Time to paper."""

    data_sets: tyro.conf.Positional[tuple[str, ...]] = DATA_SETS
    minutes: float = 60.0
    """Length of each run, to which the stages and schedules are fitted."""
    seed: int = 0
    images: int | None = None
    """Scenes to generate for training; those of `coca train` if left out."""
    first: int | None = None
    """Score only so many images of the test split."""
    out: Path = Path("runs/time-to-paper")
    finished: tuple[Path, ...] = ()
    """Runs of fast presets that have ended, to score instead of training."""


class UntilReached(ConsoleProgress):
    """Stops a run, as Ctrl-C would, at the first validation that reaches the wanted scores."""

    def __init__(self, wanted: Mapping[str, float]) -> None:
        super().__init__()
        self.wanted = wanted

    def validation(self, step: int, scores: Mapping[str, float]) -> None:
        super().validation(step, scores)
        if reached(scores, self.wanted):
            os.kill(os.getpid(), signal.SIGINT)


def reached(scores: Mapping[str, float | None], wanted: Mapping[str, float]) -> bool:
    """Whether every wanted score is there, to two digits."""
    return all(round(scores[name] or 0.0, 2) >= value for name, value in wanted.items())


def paper_scores(data_set: str, names: tuple[str, ...]) -> dict[str, float]:
    row = PAPER["coca-net", data_set].scores
    return {name: row[name].mean for name in names}


def goals_of(data_set: str) -> dict[str, dict[str, float]]:
    return {"encoder": paper_scores(data_set, ENCODER), "decoder": paper_scores(data_set, DECODER)}


def time_to_paper(data_set: str, choices: Choices) -> str:
    """Train until the test split agrees or the minutes are spent; returns the row of the leaderboard."""
    run = RunConfig(seed=choices.seed, minutes=choices.minutes, accelerator="cpu")
    settings = Settings(presets.find(f"{data_set}-fast"), run, DataChoice(images=choices.images))
    folder = RunFolder(choices.out / data_set / f"seed-{choices.seed}")
    command = f"python -m benchmarks.time_to_paper {data_set} --minutes {choices.minutes:g} --seed {choices.seed}"
    goals = goals_of(data_set)
    times: dict[str, str] = {}
    while True:
        missing = next(side for side in goals if side not in times)
        try:
            finished = train(settings, folder.path, resume=True, progress=UntilReached(goals[missing])).finished
        except Stopped:
            finished = False
        state = read_checkpoint(folder.last).state
        scores = evaluate_trained(folder.path, EvaluationSettings(first=choices.first)).scores
        for side, goal in goals.items():
            if side not in times and reached(scores, goal):
                times[side] = f"{state.seconds / 60:.1f}"
        if finished or len(times) == len(goals):
            return leaderboard_row(command, scores, times, state)


def row_of_finished(path: Path, first: int | None) -> str:
    """The row of a run that has ended, by its scores at the end."""
    folder = RunFolder(path)
    preset = folder.read_settings().preset
    scores = evaluate_trained(path, EvaluationSettings(first=first)).scores
    state = read_checkpoint(folder.last).state
    goals = goals_of(preset.name.removesuffix("-fast"))
    times = {side: f"≤ {state.seconds / 60:.1f}" for side, goal in goals.items() if reached(scores, goal)}
    return leaderboard_row(f"coca train {preset.name} --steps {state.step}", scores, times, state)


def leaderboard_row(
    command: str, scores: Mapping[str, float | None], times: Mapping[str, str], state: TrainState
) -> str:
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    reached_in = [times.get(side, f"not in {state.seconds / 60:.0f}") for side in ("encoder", "decoder")]
    shown = [f"{scores[name] or 0.0:.3f}" for name in (*ENCODER, *DECODER)]
    return f"| {' | '.join((f'{date.today()}', commit, f'`{command}`', *reached_in, f'{state.images:,}', *shown))} |"


def main() -> None:
    choices = tyro.cli(Choices, prog="python -m benchmarks.time_to_paper", description=Choices.__doc__)
    unknown = [name for name in choices.data_sets if name not in DATA_SETS]
    if unknown:
        raise SystemExit(f"unknown data set {unknown[0]!r}: there are {', '.join(DATA_SETS)}")
    if choices.finished:
        print(COLUMNS)
    for path in choices.finished:
        print(row_of_finished(path, choices.first), flush=True)
    for data_set in () if choices.finished else choices.data_sets:
        print(f"\n{data_set}\n{COLUMNS}\n{time_to_paper(data_set, choices)}", flush=True)


if __name__ == "__main__":
    main()
