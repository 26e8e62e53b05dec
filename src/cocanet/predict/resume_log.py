"""The log by which an interrupted run resumes: one line for each image, in the order of the inputs.

The first line describes the run. The line of an image is written after its files. Incomplete lines and incomplete
batches are dropped and done again, so that an image always shares its batch with the same images.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cocanet.config.serialization import first_difference
from cocanet.files import OUTPUT, existing_parent, writing
from cocanet.predict.base_segmenter import BaseSegmenter
from cocanet.predict.inputs import KINDS, Inputs
from cocanet.predict.segment_settings import OutputSettings, SegmentSettings

NAME = "_resume.jsonl"
"""The log of an unfinished run; Parquet readers ignore names that begin with an underscore."""


def check_output(output: OutputSettings) -> None:
    """Refuse an output folder that cannot be created, or that holds anything but an unfinished run."""
    parent = existing_parent(output.out)
    if not parent.is_dir():
        which = "" if parent == output.out.absolute() else f"cannot write to {output.out}: "
        raise ValueError(f"{which}{parent} is not a folder")
    if output.overwrite or not output.out.exists() or (output.out / NAME).is_file():
        return
    if any(found.name != OUTPUT for found in output.out.iterdir()):
        raise ValueError(
            f"{output.out} is not empty; give another folder with --out, or --overwrite to write over what is there"
        )


def describe_run(
    segmenter: BaseSegmenter, inputs: Inputs, output: OutputSettings, settings: SegmentSettings
) -> dict[str, Any]:
    """What must be equal for one run to resume another."""
    names = hashlib.sha256("\n".join(map(str, inputs.files)).encode("utf-8", "surrogateescape"))
    run = {
        "weights": segmenter.source or segmenter.preset.name,
        "notes": segmenter.notes,
        "settings": asdict(settings),
        "refined": segmenter.refines(settings),
        "format": output.format,
        "also": output.also,
        "keep_background": output.keep_background,
        "batch": output.batch,
        "part": output.part,
        "images": len(inputs.files),
        "files": names.hexdigest()[:16],
    }
    plain: dict[str, Any] = json.loads(json.dumps(run, default=str))
    return plain


class ResumeLog:
    """The lines of one run; a run that ends deletes it."""

    def __init__(self, out: Path, run: Mapping[str, Any], *, fresh: bool) -> None:
        self.path = out / NAME
        with writing(self.path):
            if fresh or not self._can_resume(run):
                self.path.write_bytes(_line({"run": run}))
            else:
                _delete_temporary_files(out)
            self._file = self.path.open("ab")

    def entries(self) -> Iterator[dict[str, Any]]:
        """All lines so far, without the first."""
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

    def _can_resume(self, run: Mapping[str, Any]) -> bool:
        """Whether there is a log of this run; truncates it to whole batches. ValueError for the log of another run."""
        if not self.path.exists():
            return False
        read = whole = 0
        with self.path.open("r+b") as file:
            for number, line in enumerate(file):
                entry = _parse(line)
                if entry is None:
                    break
                if number == 0:
                    self._compare(entry.get("run"), run)
                read += len(line)
                if number % run["batch"] == 0 or number == run["images"]:
                    whole = read
            file.truncate(whole)
        return whole > 0

    def _compare(self, earlier: Any, run: Mapping[str, Any]) -> None:
        difference = first_difference(earlier, run)
        if difference:
            raise ValueError(
                f"{self.path.parent} holds an unfinished run with {difference}; "
                "run that again, give another folder with --out, or --overwrite"
            )


def _delete_temporary_files(out: Path) -> None:
    for found in (out.glob("*.tmp"), *((out / kind).rglob("*.tmp") for kind in KINDS)):
        for leftover in found:
            leftover.unlink()


def _parse(line: bytes) -> dict[str, Any] | None:
    """The entry of a line, None if it is incomplete or damaged."""
    try:
        entry = json.loads(line) if line.endswith(b"\n") else None
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None


def _line(entry: Mapping[str, Any]) -> bytes:
    return json.dumps(entry).encode() + b"\n"
