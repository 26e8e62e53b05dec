"""Progress on a terminal: messages, bars and the state of a training run. In a log, bars become lines."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from cocanet.config import Preset
from cocanet.presets import PHOTOGRAPHS
from cocanet.progress import Progress, Update
from cocanet.words import duration

if TYPE_CHECKING:
    from cocanet.train.estimate import RunCost

LINE_EVERY = 30.0
"""Seconds between the lines of a log."""
REFRESHES = 4
"""Updates of a training run's bar in a second."""
SHORTEST_BAR, LONGEST_BAR = 8, 40
OF_SCENES = {"ari_fg": ("ARI-FG", ".2f"), "ari": ("ARI", ".2f"), "slots": ("slots", ".1f")}
OF_PHOTOGRAPHS = {"iou": ("IoU", ".2f"), "dice": ("Dice", ".2f"), "slots": ("slots", ".1f")}
"""Validation scores in a line: title and format. Encoder and decoder have one each."""


class _Rate(ProgressColumn):
    """Items a second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.0f}/s" if speed and speed >= 10 else f"{speed:.1f}/s" if speed else "")


class RunState(NamedTuple):
    """The state of a training run. `seconds` include those before it was resumed."""

    step: int
    loss: float
    images_per_second: float
    seconds: float
    done: float


class ConsoleProgress(Progress):
    """Prints to a terminal, or to a log."""

    def __init__(self, console: Console | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        # Where colours are forced, rich takes any file for a terminal; a log gets no bar even so.
        interactive = None if sys.stdout.isatty() else False
        self.console = console or Console(highlight=False, markup=False, force_interactive=interactive)
        self.clock = clock
        self.cost: RunCost | None = None
        """The measured cost of the training run that follows."""
        self._total_steps: int | None = None
        self._minutes: float | None = None
        self._scores = OF_SCENES
        self._sides: tuple[str, ...] = ("decoder", "encoder")
        self._explained = False
        self._state: RunState | None = None
        self._shown: RunState | None = None
        self._next_line = -math.inf
        self._live: Live | None = None

    def say(self, text: str, style: str = "") -> None:
        # Lines of a log stay whole, so that they can be searched.
        self.console.print(Text(text, style), soft_wrap=not self.console.is_interactive)

    def warn(self, text: str) -> None:
        self.say(f"warning: {text}", "yellow")

    @contextmanager
    def bar(self, title: str, total: int) -> Iterator[Update]:
        if not self.console.is_interactive:
            yield self._lines(title, total)
            return
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn()
        with RichProgress(*columns, console=self.console, transient=True) as bar:
            task = bar.add_task(title, total=total)
            yield lambda completed: bar.update(task, completed=completed)

    def _lines(self, title: str, total: int) -> Update:
        last = self.clock()

        def update(completed: int) -> None:
            nonlocal last
            if self.clock() - last >= LINE_EVERY:
                last = self.clock()
                self.say(f"{title}: {completed:,} of {total:,}")

        return update

    @contextmanager
    def training(self, preset: Preset, minutes: float | None) -> Iterator[None]:
        self._minutes, self._total_steps = minutes, None if minutes else preset.train.steps
        self._scores = OF_PHOTOGRAPHS if preset.data.name in PHOTOGRAPHS else OF_SCENES
        # The masks of a token decoder are attention and are not scored here.
        self._sides = ("encoder",) if preset.has_token_decoder else ("decoder", "encoder")
        self._state = self._shown = None
        self._next_line, self._explained = -math.inf, False
        if self.console.is_interactive:
            self._live = Live(console=self.console, refresh_per_second=REFRESHES, get_renderable=self._run_bar)
        try:
            with self._live or nullcontext():
                yield
        finally:
            if self._live is None and self._state is not self._shown:
                self._run_line()
            self._live = None

    def update(self, step: int, loss: float, images_per_second: float, seconds: float, done: float) -> None:
        # Called at every step: it only keeps the state, and now and then prints a line.
        self._state = RunState(step, loss, images_per_second, seconds, done)
        if self._live is None:
            now = self.clock()
            if now >= self._next_line:
                self._next_line = now + LINE_EVERY
                self._run_line()

    def validation(self, step: int, scores: Mapping[str, float]) -> None:
        parts = []
        for name, (title, form) in self._scores.items():
            pair = [scores[key] for key in (f"{side}_{name}" for side in self._sides) if key in scores]
            if pair:
                parts.append(f"{title} {'/'.join(format(score, form) for score in pair)}")
        if parts and not self._explained:
            self.say(f"validation scores are those of {'/'.join(self._sides)} masks")
            self._explained = True
        if "mse" in scores:
            parts.append(f"MSE {small_number(scores['mse'])}")
        self.say(f"step {step}: {', '.join(parts)}", "cyan")

    def seconds_left(self, state: RunState) -> float:
        """Remaining seconds: of the minutes, or by the measured cost, or else at the run's mean speed."""
        if self._minutes is None and self.cost is not None:
            return self.cost.seconds_left(min(1.0, state.done), state.seconds)
        if state.done > 0:
            return state.seconds * max(0.0, 1 - state.done) / state.done
        return math.nan if self._minutes is None else 60 * self._minutes

    def _run_line(self) -> None:
        if self._state:
            self._shown = self._state
            done = min(1.0, self._state.done)
            self.say(f"{self._step(self._state)} ({done:.0%}), {self._facts(self._state, ', ')}")

    def _run_bar(self) -> RenderableType:
        """One line; the bar shrinks first where the terminal is narrow."""
        state = self._state
        if state is None:
            return Text("before the first step", no_wrap=True, overflow="ellipsis")
        step, facts = self._step(state), self._facts(state, "  ")
        width = min(LONGEST_BAR, self.console.width - len(step) - len(facts) - 4)
        if width < SHORTEST_BAR:
            return Text(f"{step}  {facts}", no_wrap=True, overflow="ellipsis")
        line = Table.grid(padding=(0, 2, 0, 0))
        line.add_row(step, ProgressBar(total=1.0, completed=min(1.0, state.done), width=width), facts)
        return line

    def _step(self, state: RunState) -> str:
        return f"step {state.step}" + ("" if self._total_steps is None else f"/{self._total_steps}")

    def _facts(self, state: RunState, separator: str) -> str:
        speed = state.images_per_second
        facts = (
            f"loss {small_number(state.loss)}",
            f"{speed:.{0 if speed >= 10 else 1}f} images/s",
            f"{duration(self.seconds_left(state))} left",
        )
        return separator.join(facts)


def small_number(value: float) -> str:
    """Four decimals, or two significant digits where those would be zeros."""
    return f"{value:.4f}" if abs(value) >= 0.001 or not math.isfinite(value) or value == 0 else f"{value:.1e}"
