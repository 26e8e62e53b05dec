"""Encoders that kill their worker. Workers import this module, so it does without torch."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cocanet.predict.batches import Item
from cocanet.predict.prediction import Segmentation


@dataclass(frozen=True)
class CountObjects:
    """Kills its worker at some images: always, or as often as there are files to delete."""

    deadly: tuple[str, ...] = ()
    lives: Path | None = None

    def __call__(self, item: Item, found: Segmentation) -> int:
        if item.file_name in self.deadly:
            left = None if self.lives is None else next(self.lives.iterdir(), None)
            if self.lives is None or left is not None:
                if left is not None:
                    left.unlink()
                os.kill(os.getpid(), signal.SIGKILL)
        return len(found.objects)


@dataclass(frozen=True)
class DieOnce:
    """Encodes as another does, but kills its worker at one image while a file exists."""

    encode: Any
    life: Path
    pids: Path

    def __call__(self, item: Item, found: Segmentation) -> Any:
        (self.pids / str(os.getpid())).touch()
        if item.number == 17 and self.life.exists():
            self.life.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return self.encode(item, found)
