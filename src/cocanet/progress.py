"""How library functions report messages and progress, without printing anything themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cocanet.config import Preset

Update = Callable[[int], None]
"""Takes the number of items that are done."""


class Progress:
    """Receives every report and shows nothing; the commands have a subclass that prints."""

    def say(self, text: str) -> None:
        """A message."""

    def warn(self, text: str) -> None:
        """A message that the user should act on."""

    def bar(self, title: str, total: int) -> AbstractContextManager[Update]:
        """Progress through `total` items: `with progress.bar("writing", 100) as done: done(17)`."""
        return nullcontext(lambda completed: None)

    def training(self, preset: Preset, minutes: float | None) -> AbstractContextManager[None]:
        """A training run of `minutes`, or of the preset's steps; `update` and `validation` follow."""
        return nullcontext()

    def update(self, step: int, loss: float, images_per_second: float, seconds: float, done: float) -> None:
        """The state of the run after a step; `done` is the completed share, from 0 to 1."""

    def validation(self, step: int, scores: Mapping[str, float]) -> None:
        """The scores of a validation."""


QUIET = Progress()
