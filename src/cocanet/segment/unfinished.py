"""What a run has behind it, so that a stopped one goes on: a line for each image, in the order of the inputs.

The first line says what is being done. A line is written after the files it speaks of; those that a crash left half
written are forgotten, and their images done again. So are those of a batch that is not whole: an image is always
segmented in the company of the same others.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cocanet.config.plain import first_difference
from cocanet.files import existing_parent, writing
from cocanet.segment.base import AnySegmenter
from cocanet.segment.paths import KINDS, Inputs
from cocanet.segment.settings import OutputSettings, SegmentSettings

NAME = "_unfinished.jsonl"
"""The log of a run, as long as it is not over; Parquet readers pass over names that begin with an underscore."""


def check_output(output: OutputSettings) -> None:
    """The folder for the results can be made, and holds nothing, or a run that can be gone on with."""
    there = existing_parent(output.out)
    if not there.is_dir():
        which = "" if there == output.out.absolute() else f"cannot write to {output.out}: "
        raise ValueError(f"{which}{there} is not a folder")
    if output.overwrite or not output.out.exists() or (output.out / NAME).is_file():
        return
    if any(output.out.iterdir()):
        raise ValueError(
            f"{output.out} is not empty; give another folder with --out, or --overwrite to write over what is there"
        )


def describe(segmenter: AnySegmenter, inputs: Inputs, output: OutputSettings, find: SegmentSettings) -> dict[str, Any]:
    """What two runs must have in common for one to go on with what the other left."""
    names = hashlib.sha256("\n".join(map(str, inputs.files)).encode())
    job = {
        "weights": segmenter.source or segmenter.preset.name,
        "notes": segmenter.notes,
        "find": asdict(find),
        "format": output.format,
        "keep_background": output.keep_background,
        "batch": output.batch,
        "part": output.part,
        "images": len(inputs.files),
        "files": names.hexdigest()[:16],
    }
    plain: dict[str, Any] = json.loads(json.dumps(job, default=str))
    return plain


class Log:
    """The lines of a run. Open it once; a run that is over deletes it."""

    def __init__(self, out: Path, job: Mapping[str, Any], *, fresh: bool) -> None:
        self.path = out / NAME
        with writing(self.path):
            if fresh or not self._is_usable(job):
                self.path.write_bytes(_line({"job": job}))
            else:
                _sweep(out)
            self._file = self.path.open("ab")

    def entries(self) -> Iterator[dict[str, Any]]:
        """What was written so far, without the first line."""
        with self.path.open("rb") as file:
            next(file)
            for line in file:
                yield json.loads(line)

    def add(self, entry: Mapping[str, Any]) -> None:
        with writing(self.path):
            self._file.write(_line(entry))
            self._file.flush()

    def close(self) -> None:
        self._file.close()

    def delete(self) -> None:
        self.close()
        self.path.unlink()

    def _is_usable(self, job: Mapping[str, Any]) -> bool:
        """Whether there is a log of this job; cut off after its last whole batch. ValueError if it is of another."""
        if not self.path.exists():
            return False
        read = whole = 0
        with self.path.open("r+b") as file:
            for number, line in enumerate(file):
                entry = _entry(line)
                if entry is None:
                    break
                if number == 0:
                    self._compare(entry.get("job"), job)
                read += len(line)
                if number % job["batch"] == 0 or number == job["images"]:
                    whole = read
            file.truncate(whole)
        return whole > 0

    def _compare(self, there: Any, job: Mapping[str, Any]) -> None:
        different = first_difference(there, job)
        if different:
            raise ValueError(
                f"{self.path.parent} holds an unfinished run with {different}; "
                "run that again, give another folder with --out, or --overwrite"
            )


def _sweep(out: Path) -> None:
    """Delete the files that a killed run had not written to their end."""
    for found in (out.glob("*.tmp"), *((out / kind).rglob("*.tmp") for kind in KINDS)):
        for leftover in found:
            leftover.unlink()


def _entry(line: bytes) -> dict[str, Any] | None:
    """What a line says, None where it is not whole."""
    try:
        entry = json.loads(line) if line.endswith(b"\n") else None
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None


def _line(entry: Mapping[str, Any]) -> bytes:
    return json.dumps(entry).encode() + b"\n"
