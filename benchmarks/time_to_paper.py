"""`python -m benchmarks.time_to_paper [DATASET…]`: minutes until the network's own masks score as the paper's.

Each data set is trained with its `-fast` preset and validated as it goes. Once the encoder masks reach the paper's
encoder ARI-FG and mSC-FG on validation scenes, the frozen test split decides; until it agrees, training goes on. Scores
count as reached when they round to the paper's two digits. The decoder's time is that of its ARI-FG alone. Evaluation
is not part of the time, validation is.
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
    out: Path = Path("runs/time-to-paper")


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


def time_to_paper(data_set: str, choices: Choices) -> str:
    """Train until the test split agrees or the minutes are spent; returns the row of the leaderboard."""
    run = RunConfig(seed=choices.seed, minutes=choices.minutes, accelerator="cpu")
    settings = Settings(presets.find(f"{data_set}-fast"), run, DataChoice())
    folder = RunFolder(choices.out / data_set / f"seed-{choices.seed}")
    goals = {"encoder": paper_scores(data_set, ENCODER), "decoder": paper_scores(data_set, DECODER)}
    minutes: dict[str, float] = {}
    while True:
        missing = next(side for side in goals if side not in minutes)
        try:
            finished = train(settings, folder.path, resume=True, progress=UntilReached(goals[missing])).finished
        except Stopped:
            finished = False
        state = read_checkpoint(folder.last).state
        scores = evaluate_trained(folder.path, EvaluationSettings()).scores
        for side, goal in goals.items():
            if side not in minutes and reached(scores, goal):
                minutes[side] = state.seconds / 60
        if finished or len(minutes) == len(goals):
            return leaderboard_row(data_set, choices, scores, minutes, state)


def leaderboard_row(
    data_set: str,
    choices: Choices,
    scores: Mapping[str, float | None],
    minutes: Mapping[str, float],
    state: TrainState,
) -> str:
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    command = f"`python -m benchmarks.time_to_paper {data_set} --minutes {choices.minutes:g} --seed {choices.seed}`"
    times = [f"{minutes[side]:.1f}" if side in minutes else "not reached" for side in ("encoder", "decoder")]
    shown = [f"{scores[name] or 0.0:.3f}" for name in (*ENCODER, *DECODER)]
    return f"| {' | '.join((f'{date.today()}', commit, command, *times, f'{state.images:,}', *shown))} |"


def main() -> None:
    choices = tyro.cli(Choices, prog="python -m benchmarks.time_to_paper", description=Choices.__doc__)
    unknown = [name for name in choices.data_sets if name not in DATA_SETS]
    if unknown:
        raise SystemExit(f"unknown data set {unknown[0]!r}: there are {', '.join(DATA_SETS)}")
    for data_set in choices.data_sets:
        print(f"\n{data_set}\n{COLUMNS}\n{time_to_paper(data_set, choices)}", flush=True)


if __name__ == "__main__":
    main()
