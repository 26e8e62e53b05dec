"""Ctrl-C and SIGTERM: finish the step, save, and go."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType


class Stopped(KeyboardInterrupt):
    """A run that a signal stopped, after it was saved."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.signal = number


class Interrupt:
    """While it is entered, the first signal is remembered in `signal`; a second one acts as it always does."""

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self.signal = 0

    def __enter__(self) -> Interrupt:
        # Python takes signals in its main thread only; a run in another is stopped by whoever owns that one.
        heard = self.SIGNALS if threading.current_thread() is threading.main_thread() else ()
        self._before = {number: signal.signal(number, self._remember) for number in heard}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._restore()

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
