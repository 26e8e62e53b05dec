"""What a training tells whoever watches it; this one shows nothing."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType

from cocanet.runs.folder import Settings
from cocanet.watch import Watcher


class Display(Watcher):
    """Told everything between `with` and the end of a run."""

    def begin(self, settings: Settings) -> None:
        """What is going to be trained."""

    def __enter__(self) -> Display:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pass

    def update(self, step: int, loss: float, images_per_second: float, seconds: float, done: float) -> None:
        """Where the run is now, at every step; `done` is its share in [0, 1]."""

    def note(self, text: str) -> None:
        """A line that stays."""

    def warn(self, text: str) -> None:
        pass

    def validation(self, step: int, scores: Mapping[str, float]) -> None:
        pass
