from __future__ import annotations

import gzip
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cocanet.data.generators.tetrominoes import OCCURRING, Pieces, Tetrominoes, draw, render


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
        if byte < 128:
            return value, at


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        size, at = _varint(message, at)
        yield tag >> 3, message[at : at + size]
        at += size


def _records(path: Path) -> Iterator[dict[str, np.ndarray]]:
    """Just enough of TFRecord and protobuf for this file, sharing nothing with the readers."""
    data = gzip.decompress(path.read_bytes())
    while data:
        (size,) = struct.unpack("<Q", data[:8])
        record, data = data[12 : 12 + size], data[16 + size :]
        values = {}
        for _, features in _fields(record):
            for _, entry in _fields(features):
                pair = dict(_fields(entry))
                ((kind, items),) = _fields(pair[2])
                joined = b"".join(item for _, item in _fields(items))
                values[pair[1].decode()] = np.frombuffer(joined, np.uint8 if kind == 1 else np.float32)
        yield values


def test_real_factors_render_to_the_real_pixels(samples: Path) -> None:
    records = list(_records(samples / "tetrominoes" / "tetrominoes_mini.tfrecords"))
    assert len(records) == 10
    for record in records:
        pieces = Pieces(
            np.stack([record["x"], record["y"]], axis=-1)[None, 1:].astype(np.int64),
            record["shape"][None, 1:].astype(np.int64),
            record["color"].reshape(1, 4, 3)[:, 1:].astype(np.uint8),
        )
        images, labels = render(pieces)
        np.testing.assert_array_equal(images[0], record["image"].reshape(35, 35, 3))
        planes = (labels[0] == np.arange(4)[:, None, None]) * np.uint8(255)
        np.testing.assert_array_equal(planes, record["mask"].reshape(4, 35, 35))


def test_pieces_lie_whole_and_apart_on_the_canvas() -> None:
    _, labels = Tetrominoes(2000, seed=5, size=35).gather(np.arange(2000))
    pixels = (labels.reshape(2000, -1, 1) == np.arange(1, 4)).sum(axis=1)
    assert (pixels == 100).all()  # four cells of 25 px each, none covered, none cut off
    assert labels.max() == 3


def test_published_shapes_and_colours_occur_and_no_others() -> None:
    pieces = draw(1, np.arange(3000))
    numbers, counts = np.unique(pieces.shape, return_counts=True)
    assert len(OCCURRING) == 17
    np.testing.assert_array_equal(numbers, OCCURRING)
    assert counts.min() > 0.6 * counts.mean()  # rejection favours compact pieces a little
    colours = np.unique(pieces.colour.reshape(-1, 3), axis=0)
    assert len(colours) == 6
    assert not (colours.sum(axis=1) % 3 == 0).any()  # neither black nor white
    assert pieces.position.min() == 0
    # Every edge is reached: the flattest pieces are two cells high, the standing I is one cell wide.
    assert pieces.position.max(axis=(0, 1)).tolist() == [35 - 2 * 5, 35 - 1 * 5]


def test_default_is_the_centre_crop() -> None:
    indices = np.array([3, 999, 4])
    whole, whole_labels = Tetrominoes(1000, seed=2, size=35).gather(indices)
    images, labels = Tetrominoes(1000, seed=2).gather(indices)
    np.testing.assert_array_equal(images, whole[:, 2:34, 2:34])
    np.testing.assert_array_equal(labels, whole_labels[:, 2:34, 2:34])


@settings(max_examples=25)
@given(seed=st.integers(0, 2**40), indices=st.lists(st.integers(0, 10**9), min_size=1, max_size=6))
def test_a_sample_depends_on_seed_and_index_only(seed: int, indices: list[int]) -> None:
    images, labels = Tetrominoes(10**9 + 1, seed).gather(np.array(indices))
    for i, index in enumerate(indices):
        sample = Tetrominoes(index + 1, seed)[index]
        np.testing.assert_array_equal(sample.image, images[i])
        np.testing.assert_array_equal(sample.labels, labels[i])


def test_factors_belong_to_their_labels() -> None:
    for sample in Tetrominoes(50, seed=9).many(np.arange(50)):
        for k in range(3):
            rows, columns = np.nonzero(sample.labels == k + 1)
            top, left = sample.factors["position"][k]
            assert max(top, 0) == rows.min() or sample.factors["visibility"][k] < 100
            assert left <= columns.min()
            assert sample.factors["visibility"][k] == len(rows)
            brightest = sample.image[rows, columns].max(axis=0)
            np.testing.assert_array_equal(brightest > 0, sample.factors["colour"][k] > 0)


def test_mistakes_are_named() -> None:
    with pytest.raises(ValueError, match=r"sizes \(32, 35\), not 64"):
        Tetrominoes(10, seed=0, size=64)
    with pytest.raises(ValueError, match="at least 0, not -1"):
        Tetrominoes(-1, seed=0)
    with pytest.raises(IndexError, match="10 of 10"):
        Tetrominoes(10, seed=0)[10]
