"""Parquet files whose footers say little and whose pages hold much: memory stays bounded."""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest
from PIL import Image

from cocanet.data.readers.parquet_pages import PageHeader, parse_header

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")

from cocanet.data.readers import parquet  # noqa: E402
from cocanet.data.readers.parquet import ParquetImages  # noqa: E402

PEAK = """
import resource, sys
from cocanet.data.readers.parquet import ParquetImages
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    images = ParquetImages(sys.argv[1])
    print(len(images.encoded(0)), len(images.encoded(199)))
except ValueError as error:
    print(error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def png(value: int) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.full((9, 9, 3), value, dtype=np.uint8)).save(file, "PNG")
    return file.getvalue()


def test_a_dictionary_is_not_expanded(tmp_path):
    """Two hundred references to one value of 4 MB: 800 MB in a file of some kilobytes."""
    value, path = bytes(2**22), tmp_path / "bomb.parquet"
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(200, np.int32)), pa.array([value], pa.binary()))
    pq.write_table(pa.table({"image": column}), path, compression="zstd", store_schema=False)
    assert path.stat().st_size < 10_000
    done = subprocess.run([sys.executable, "-c", PEAK, str(path)], capture_output=True, text=True, check=True)
    answer, peak = done.stdout.splitlines()
    assert answer == f"{2**22} {2**22}"
    assert int(peak) < 500, f"{peak} MB"


def test_a_page_beyond_the_limit_is_refused_unread(tmp_path, monkeypatch):
    path = tmp_path / "bomb.parquet"
    pq.write_table(pa.table({"image": pa.array([bytes(2**20)] * 3, pa.binary())}), path, compression="zstd")
    monkeypatch.setattr(parquet, "MAX_DECODED_BYTES", 2**20)
    with pytest.raises(ValueError, match=r"bomb\.parquet: row 0: a page has .* bytes; expected at most 1,048,576"):
        ParquetImages(path).encoded(0)


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize(
    "options", [{}, {"use_dictionary": False}, {"write_statistics": False}, {"data_page_size": 99}]
)
def test_rows_in_any_order(tmp_path, version, options):
    contents = [png(number) for number in range(150)]
    rows = [{"bytes": content, "path": f"{number}.png"} for number, content in enumerate(contents)]
    path = tmp_path / "a.parquet"
    table = pa.table({"label": list(range(150)), "image": rows})
    pq.write_table(table, path, row_group_size=70, data_page_version=version, **options)
    images = ParquetImages(path)
    for row in (0, 1, 69, 70, 149, 3, 148, 148, 0):
        assert images.encoded(row) == contents[row]


def test_headers_are_those_that_arrow_wrote(tmp_path):
    """The pages of a column fill it exactly."""
    path = tmp_path / "a.parquet"
    values = [bytes([number]) * 100 for number in range(50)]
    pq.write_table(
        pa.table({"image": values}),
        path,
        compression="none",
        data_page_size=600,
        use_dictionary=False,
        write_batch_size=5,
    )
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(0)
    content, place, pages = path.read_bytes(), chunk.data_page_offset, 0
    while place < chunk.data_page_offset + chunk.total_compressed_size:
        header = parse_header(content[place:])
        assert header.decoded == header.stored
        place, pages = place + header.length + header.stored, pages + 1
    assert place == chunk.data_page_offset + chunk.total_compressed_size
    assert pages > 3


def test_structs_are_nested_eight_deep_at_most():
    def header(deep: int) -> bytes:
        nested = [0x1C] * deep + [0] * deep  # field 1 is a struct, whose field 1 is a struct, …
        return bytes([*nested, 0x15, 2 * 5, 0x15, 2 * 7, 0])  # fields 2 and 3 are the integers 5 and 7

    assert parse_header(header(8)) == PageHeader(5, 7, len(header(8)))
    with pytest.raises(ValueError, match="a page has a damaged header"):
        parse_header(header(9))


def test_damaged_headers():
    generator = np.random.default_rng(0)
    for _ in range(300):
        with suppress(ValueError):
            assert parse_header(generator.bytes(int(generator.integers(0, 60)))).length > 0
