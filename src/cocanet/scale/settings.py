"""Who does the work; the fields are flags of `coca segment`, with this help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Engine = Literal["processes", "ray"]


@dataclass(frozen=True)
class ScaleSettings:
    """How many workers there are, and where."""

    workers: int | None = None
    """Processes of one thread each, as many as there are cores for the most images a second; if left out, this process
    with all its threads, and with Ray every core of the cluster."""
    engine: Engine = "processes"
    """Whose processes: of this machine, or of a Ray cluster that is there already (or else is started here)."""

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise ValueError(f"workers must be at least 1; got {self.workers}")
