"""The one place that draws on a terminal: lines, and bars that count."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from cocanet.watch import Update, Watcher

LINE_EVERY = 10.0
"""Seconds between the lines of a log that nobody watches."""


def plain_console() -> Console:
    """Prints text as it is, in whole lines."""
    return Console(highlight=False, markup=False, soft_wrap=True)


class _Rate(ProgressColumn):
    """Items a second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.0f}/s" if speed and speed >= 10 else f"{speed:.1f}/s" if speed else "")


class ConsoleWatcher(Watcher):
    """A bar on a terminal, which leaves nothing behind; elsewhere a line now and then."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or plain_console()

    def say(self, text: str) -> None:
        self.console.print(text)

    @contextmanager
    def progress(self, title: str, total: int) -> Iterator[Update]:
        if not self.console.is_terminal:
            yield self._lines(title, total)
            return
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn()
        with Progress(*columns, console=self.console, transient=True) as bar:
            task = bar.add_task(title, total=total)
            yield lambda completed: bar.update(task, completed=completed)

    def _lines(self, title: str, total: int) -> Update:
        last = time.monotonic()

        def update(completed: int) -> None:
            nonlocal last
            if time.monotonic() - last >= LINE_EVERY:
                last = time.monotonic()
                self.console.print(f"{title}: {completed:,} of {total:,}")

        return update
