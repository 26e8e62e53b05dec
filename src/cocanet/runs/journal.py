"""metrics.jsonl: one line of JSON for each thing that was measured."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cocanet.files import write_atomically


def append(path: Path, line: Mapping[str, Any]) -> None:
    """Add a line; NaN becomes null, for JSON has none."""
    with path.open("a") as file:
        file.write(json.dumps(_plain(line)) + "\n")


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a journal; one that a killed run left unfinished is passed over."""
    if not path.exists():
        return
    for line in path.read_text().splitlines():
        try:
            content = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(content, dict):
            yield content


def rewind(path: Path, step: int) -> None:
    """Drop what happened after `step`: a resumed run does it again."""
    kept = [json.dumps(line) + "\n" for line in read(path) if line["step"] <= step]
    write_atomically(path, ["".join(kept).encode()])


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    return None if isinstance(value, float) and value != value else value
