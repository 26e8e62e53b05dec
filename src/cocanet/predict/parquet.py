"""Results as Parquet: `part-00000.parquet`, `part-00001.parquet`, …, a row for each segment of each image.

A part covers a fixed range of the inputs and is written atomically; an interrupted run resumes after the last part.
An image that could not be read has one row with the reason as its `error`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cocanet.extras import extra
from cocanet.files import write_atomically, writing
from cocanet.predict.base_segmenter import BaseSegmenter
from cocanet.predict.batches import Outcome
from cocanet.predict.inputs import Inputs, ReadFailure
from cocanet.predict.resume_log import ResumeLog, describe_run
from cocanet.predict.segment_many import RunSummary
from cocanet.predict.segment_settings import OutputSettings, SegmentSettings

pa = extra("pyarrow", "parquet", "Parquet files are written")
pq = extra("pyarrow.parquet", "parquet", "Parquet files are written")

MASK = pa.struct([("size", pa.list_(pa.int32(), 2)), ("counts", pa.string())])
"""COCO's compressed run lengths; pycocotools decodes them."""
SCHEMA = pa.schema(
    [
        pa.field("image", pa.int64(), nullable=False),
        pa.field("file_name", pa.string(), nullable=False),
        ("height", pa.int32()),
        ("width", pa.int32()),
        ("label", pa.int32()),
        ("slot", pa.int32()),
        ("background", pa.bool_()),
        ("area", pa.int64()),
        ("box", pa.list_(pa.int32(), 4)),
        ("centre", pa.list_(pa.float64(), 2)),
        ("compactness", pa.float64()),
        ("confidence", pa.float32()),
        ("score", pa.float32()),
        ("mask", MASK),
        ("vector", pa.list_(pa.float32())),
        ("error", pa.string()),
    ]
)


class ParquetSink:
    """Collects the rows of a part, then writes the part."""

    def __init__(
        self, segmenter: BaseSegmenter, inputs: Inputs, output: OutputSettings, settings: SegmentSettings
    ) -> None:
        self.inputs, self.output = inputs, output
        self.summary = RunSummary(failures=list(inputs.failures))
        self._run = describe_run(segmenter, inputs, output, settings)
        # A part ends where a batch does.
        self._size = -(-output.part // output.batch) * output.batch
        self._rows: list[dict[str, Any]] = []
        self._added = 0
        """Images of the part in work."""
        self._log = ResumeLog(output.out, self._run, fresh=output.overwrite)
        self._parts = 0
        if output.overwrite:
            for path in output.out.glob("part-*.parquet"):
                path.unlink()
        while self._path(self._parts).exists():
            self._count(pq.read_table(self._path(self._parts), columns=["image", "background", "error"]).to_pylist())
            self._parts += 1
        self.summary.finished = min(self._parts * self._size, len(inputs.files))
        self.summary.resumed = self.summary.finished

    def add(self, outcome: Outcome) -> None:
        item = outcome.item
        missing = {"image": item.number, "file_name": item.file_name, "error": outcome.error}
        self._rows += [missing] if outcome.result is None else outcome.result
        self._added += 1
        if self._added == self._size:
            self._write()

    def finish(self) -> None:
        if self._rows:
            self._write()
        self._log.delete()

    def close(self) -> None:
        self._log.close()

    def _path(self, part: int) -> Path:
        return self.output.out / f"part-{part:05d}.parquet"

    def _write(self) -> None:
        facts = {name: self._run[name] for name in ("weights", "settings", "refined")}
        about = {b"cocanet": json.dumps(facts).encode()}
        table = pa.Table.from_pylist(self._rows, SCHEMA).replace_schema_metadata(about)
        buffer = pa.BufferOutputStream()
        pq.write_table(table, buffer, compression="zstd")
        path = self._path(self._parts)
        with writing(path):
            write_atomically(path, [memoryview(buffer.getvalue())])
        self._count(self._rows)
        self._parts += 1
        self.summary.finished += self._added
        self._rows, self._added = [], 0

    def _count(self, rows: list[Mapping[str, Any]] | list[dict[str, Any]]) -> None:
        failed = [row for row in rows if row.get("error") is not None]
        self.summary.failures += [ReadFailure(self.inputs.files[row["image"]], row["error"]) for row in failed]
        # Every image that was read has one background.
        self.summary.images += sum(bool(row.get("background")) for row in rows)
        self.summary.objects += sum(row.get("background") is False for row in rows)
