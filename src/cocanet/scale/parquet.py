"""Results as Parquet: `part-00000.parquet`, `part-00001.parquet`, …, a row for each segment of each image.

A part is of a fixed stretch of the inputs and appears whole or not at all; a stopped run goes on after the last one.
An image that could not be read has one row, with the reason as its `error` and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cocanet.extras import extra
from cocanet.files import write_atomically, writing
from cocanet.segment.base import AnySegmenter
from cocanet.segment.batches import Outcome
from cocanet.segment.files import Done
from cocanet.segment.paths import Failure, Inputs
from cocanet.segment.settings import OutputSettings, SegmentSettings
from cocanet.segment.unfinished import Log, describe

pa = extra("pyarrow", "parquet", "Parquet files are written")
pq = extra("pyarrow.parquet", "parquet", "Parquet files are written")

MASK = pa.struct([("size", pa.list_(pa.int32(), 2)), ("counts", pa.string())])
"""COCO's compressed run lengths, as pycocotools decodes them."""
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
        ("mask", MASK),
        ("vector", pa.list_(pa.float32())),
        ("error", pa.string()),
    ]
)


class ParquetSink:
    """Collects rows until a part is full, then writes it."""

    def __init__(self, segmenter: AnySegmenter, inputs: Inputs, output: OutputSettings, find: SegmentSettings) -> None:
        self.inputs, self.output = inputs, output
        self.done = Done(failures=list(inputs.failures))
        self._job = describe(segmenter, inputs, output, find)
        # A part ends where a batch does.
        self._size = -(-output.part // output.batch) * output.batch
        self._rows: list[dict[str, Any]] = []
        self._added = 0
        """Images whose rows wait for their part to be full."""
        self._log = Log(output.out, self._job, fresh=output.overwrite)
        self._parts = 0
        if output.overwrite:
            for path in output.out.glob("part-*.parquet"):
                path.unlink()
        while self._path(self._parts).exists():
            self._count(pq.read_table(self._path(self._parts), columns=["image", "background", "error"]).to_pylist())
            self._parts += 1
        self.done.behind = min(self._parts * self._size, len(inputs.files))
        self.done.earlier = self.done.behind

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
        about = {b"cocanet": json.dumps({"weights": self._job["weights"], "find": self._job["find"]}).encode()}
        table = pa.Table.from_pylist(self._rows, SCHEMA).replace_schema_metadata(about)
        buffer = pa.BufferOutputStream()
        pq.write_table(table, buffer, compression="zstd")
        path = self._path(self._parts)
        with writing(path):
            write_atomically(path, [memoryview(buffer.getvalue())])
        self._count(self._rows)
        self._parts += 1
        self.done.behind += self._added
        self._rows, self._added = [], 0

    def _count(self, rows: list[Mapping[str, Any]] | list[dict[str, Any]]) -> None:
        bad = [row for row in rows if row.get("error") is not None]
        self.done.failures += [Failure(self.inputs.files[row["image"]], row["error"]) for row in bad]
        # Every image that was read has one background.
        self.done.images += sum(bool(row.get("background")) for row in rows)
        self.done.objects += sum(row.get("background") is False for row in rows)
