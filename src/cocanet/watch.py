"""How a library function says what it does and how far it is: to a `Watcher`, which by itself says nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

Update = Callable[[int], None]
"""Told how much of a total is done."""


class Watcher:
    """Hears everything and shows nothing; the commands have one that prints."""

    def say(self, text: str) -> None:
        """A line for whoever watches."""

    def progress(self, title: str, total: int) -> AbstractContextManager[Update]:
        """`with watcher.progress("writing", 100) as done: done(17)`."""
        return nullcontext(lambda completed: None)


QUIET = Watcher()
