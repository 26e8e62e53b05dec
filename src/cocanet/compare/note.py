"""compare.json: what a training leaves behind beside its run, its peak memory and why it failed if it did."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from cocanet.config.plain import from_plain
from cocanet.files import read_json, write_atomically

FILE = "compare.json"


@dataclass(frozen=True)
class Note:
    """What is noted of one run, however often it was resumed."""

    peak_bytes: int | None = None
    """The most memory that the process of a training had at once."""
    failed: str | None = None
    """Why the run could not be finished."""


def read_note(run: Path) -> Note:
    """A run's note; an empty one if there is none."""
    file = run / FILE
    if not file.exists():
        return Note()
    return from_plain(Note, read_json(file), str(file))


def write_note(run: Path, note: Note) -> None:
    run.mkdir(parents=True, exist_ok=True)
    write_atomically(run / FILE, [json.dumps(asdict(note), indent=1).encode(), b"\n"])
