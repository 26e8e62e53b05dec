"""What a training run shows while it goes on: a bar on a terminal, now and then a plain line elsewhere."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import NamedTuple

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from cocanet.cli.console import ConsoleWatcher
from cocanet.data.readers import PHOTOGRAPHS
from cocanet.runs.folder import Settings
from cocanet.train.display import Display
from cocanet.watch import Update
from cocanet.words import duration

LINE_EVERY = 30.0
"""Seconds between the lines of a log that nobody watches."""
REFRESHES = 4
"""Pictures of the bar in a second."""
SHORTEST_BAR = 8
LONGEST_BAR = 40
OF_SCENES = {"ari_fg": ("ARI-FG", ".2f"), "ari": ("ARI", ".2f"), "slots": ("slots", ".1f")}
OF_PHOTOGRAPHS = {"iou": ("IoU", ".2f"), "dice": ("Dice", ".2f"), "slots": ("slots", ".1f")}
"""Scores that decoder and encoder each have, as they are shown."""
SIDES: tuple[str, ...] = ("decoder", "encoder")


class Progress(NamedTuple):
    """Where a run is; `seconds` are those of the whole run, before and after it was resumed."""

    step: int
    loss: float
    images_per_second: float
    seconds: float
    done: float


class RunDisplay(Display):
    """Shows a run between `with` and its end; `update` costs next to nothing, so it may be called at every step."""

    def __init__(
        self,
        total_steps: int | None = None,
        minutes: float | None = None,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.total_steps, self.minutes, self.clock = total_steps, minutes, clock
        # Where colours are forced on, rich takes any file for a terminal; a log shall have no bar even so.
        self.console = console or Console(force_interactive=None if sys.stdout.isatty() else False)
        self._progress: Progress | None = None
        self._shown: Progress | None = None
        self._next_line = -math.inf
        self._explained = False
        self._scores, self._sides = OF_SCENES, SIDES
        self._live = None
        if self.console.is_interactive:
            self._live = Live(console=self.console, refresh_per_second=REFRESHES, get_renderable=self._bar)

    def begin(self, settings: Settings) -> None:
        self.minutes = settings.run.minutes
        self.total_steps = None if self.minutes else settings.preset.train.steps
        preset = settings.preset
        if preset.data.name in PHOTOGRAPHS or preset.train.figure:
            self._scores = OF_PHOTOGRAPHS
        if preset.by_tokens:
            self._sides = ("encoder",)

    def say(self, text: str) -> None:
        ConsoleWatcher(self.console).say(text)

    def progress(self, title: str, total: int) -> AbstractContextManager[Update]:
        return ConsoleWatcher(self.console).progress(title, total)

    def __enter__(self) -> Display:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()
        elif self._progress is not self._shown:
            self._print_line()

    def update(self, step: int, loss: float, images_per_second: float, seconds: float, done: float) -> None:
        """Where the run is now; `done` is its share in [0, 1]."""
        self._progress = Progress(step, loss, images_per_second, seconds, done)
        if self._live is None:
            now = self.clock()
            if now >= self._next_line:
                self._next_line = now + LINE_EVERY
                self._print_line()

    def note(self, text: str, style: str = "") -> None:
        """A line that stays, above the bar."""
        # A log keeps its lines whole, for those who search it.
        self.console.print(Text(text, style), soft_wrap=not self.console.is_interactive)

    def warn(self, text: str) -> None:
        self.note(f"warning: {text}", "yellow")

    def validation(self, step: int, scores: Mapping[str, float]) -> None:
        """One line of scores; those that both sides have are given as decoder/encoder.

        The masks of a decoder by tokens are no segmentation, and not shown.
        """
        parts = []
        for name, (title, form) in self._scores.items():
            pair = [scores[key] for key in (f"{side}_{name}" for side in self._sides) if key in scores]
            if pair:
                parts.append(f"{title} {'/'.join(format(score, form) for score in pair)}")
        if parts and not self._explained:
            self.note(f"validation scores are those of {'/'.join(self._sides)} masks")
            self._explained = True
        if "mse" in scores:
            parts.append(f"MSE {small_number(scores['mse'])}")
        self.note(f"step {step}: {', '.join(parts)}", "cyan")

    def seconds_left(self, progress: Progress) -> float:
        """By the run's own pace; NaN while there is none."""
        if progress.done > 0:
            return progress.seconds * max(0.0, 1 - progress.done) / progress.done
        return math.nan if self.minutes is None else 60 * self.minutes

    def _print_line(self) -> None:
        if self._progress:
            self._shown = self._progress
            done = min(1.0, self._progress.done)
            self.note(f"{self._step(self._progress)} ({done:.0%}), {self._facts(self._progress, ', ')}")

    def _step(self, progress: Progress) -> str:
        return f"step {progress.step}" + ("" if self.total_steps is None else f"/{self.total_steps}")

    def _facts(self, progress: Progress, separator: str) -> str:
        speed = progress.images_per_second
        facts = (
            f"loss {small_number(progress.loss)}",
            f"{speed:.{0 if speed >= 10 else 1}f} images/s",
            f"{duration(self.seconds_left(progress))} left",
        )
        return separator.join(facts)

    def _bar(self) -> RenderableType:
        """One line as wide as the terminal allows; the bar gives way first."""
        progress = self._progress
        if progress is None:
            return Text("before the first step", no_wrap=True, overflow="ellipsis")
        step, facts = self._step(progress), self._facts(progress, "  ")
        room = min(LONGEST_BAR, self.console.width - len(step) - len(facts) - 4)
        if room < SHORTEST_BAR:
            return Text(f"{step}  {facts}", no_wrap=True, overflow="ellipsis")
        line = Table.grid(padding=(0, 2, 0, 0))
        line.add_row(step, ProgressBar(total=1.0, completed=min(1.0, progress.done), width=room), facts)
        return line


def small_number(value: float) -> str:
    """Four decimals, or two digits where those would show little of it."""
    return f"{value:.4f}" if abs(value) >= 0.001 or not math.isfinite(value) or value == 0 else f"{value:.1e}"
