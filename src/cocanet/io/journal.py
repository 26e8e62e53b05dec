"""metrics.jsonl: one line of JSON for each measurement."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cocanet.files import parse_json, write_atomically


def append(path: Path, line: Mapping[str, Any]) -> None:
    """Add a line; NaN becomes null, for JSON has none."""
    with path.open("a") as file:
        file.write(json.dumps(without_nan(line)) + "\n")


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a journal; one that a killed run left unfinished is passed over."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for line in file:
            try:
                content = parse_json(line, str(path))
            except ValueError:
                continue
            if isinstance(content, dict) and isinstance(content.get("step"), int):
                yield content


def rewind(path: Path, step: int) -> None:
    """Drop what happened after `step`: a resumed run does it again."""
    kept = [json.dumps(line) + "\n" for line in read(path) if line["step"] <= step]
    write_atomically(path, ["".join(kept).encode()])


def without_nan(value: Any) -> Any:
    """The same with None for every NaN in dictionaries."""
    if isinstance(value, Mapping):
        return {key: without_nan(part) for key, part in value.items()}
    return None if isinstance(value, float) and value != value else value
