"""Checksums, framing and gzip of TFRecord files."""

from __future__ import annotations

import gzip
import multiprocessing
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

from cocanet.data.readers import tfrecord
from cocanet.data.readers.crc32c import crc32c
from cocanet.data.readers.example import parse_example, read_bytes_feature, read_float_feature
from cocanet.data.readers.tfrecord import RecordFile
from tests.data.readers.writers import bitwise_crc32c, example, frame, masked_crc, text, write_tfrecords


@pytest.fixture
def payloads() -> list[bytes]:
    generator = np.random.default_rng(0)
    return [generator.bytes(int(size)) for size in generator.integers(0, 3000, 200)]


def test_crc_of_the_standard_message() -> None:
    assert crc32c(b"123456789") == 0xE3069283


def test_crc_is_the_bitwise_definition() -> None:
    for size in (0, 1, 3, 511, 512, 513, 16383, 16384, 16385, 50_001):
        data = np.random.default_rng(size).bytes(size)
        expected = bitwise_crc32c(data)
        assert crc32c(data) == expected
        assert crc32c(memoryview(data)) == expected


@pytest.mark.parametrize("compress", [True, False])
def test_records_come_back_in_any_order(tmp_path: Path, payloads: list[bytes], compress: bool) -> None:
    file = RecordFile(write_tfrecords(tmp_path / "a.tfrecords", payloads, compress=compress))
    assert file.scan(None) == range(200)
    order = [0, 1, 2, 199, 0, 100, 101, 50, *np.random.default_rng(1).permutation(200)[:30]]
    assert all(file.read(int(index)) == payloads[index] for index in order)


def test_going_back_continues_from_a_mark(
    tmp_path: Path, payloads: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tfrecord, "PIECE", 1 << 10)
    monkeypatch.setattr(tfrecord, "FIRST_SPACING", 1 << 10)
    monkeypatch.setattr(tfrecord, "MARKS", 16)
    file = RecordFile(write_tfrecords(tmp_path / "a.tfrecords", payloads))
    file.scan(None)
    assert 8 <= len(file._marks) <= 16
    for index in np.random.default_rng(2).permutation(200):
        assert file.read(int(index)) == payloads[index]


def test_scan_stops_at_the_limit_and_filters(tmp_path: Path, payloads: list[bytes]) -> None:
    file = RecordFile(write_tfrecords(tmp_path / "a.tfrecords", payloads))
    assert file.scan(7) == range(7)
    long = [index for index, payload in enumerate(payloads) if len(payload) > 1500]
    assert file.scan(None, lambda payload: len(payload) > 1500) == long
    assert file.scan(5, lambda payload: len(payload) > 1500) == long[:5]


def test_several_gzip_members(tmp_path: Path, payloads: list[bytes]) -> None:
    path = tmp_path / "a.tfrecords"
    path.write_bytes(gzip.compress(frame(payloads[0]) + frame(payloads[1])) + gzip.compress(frame(payloads[2])))
    file = RecordFile(path)
    assert file.scan(None) == range(3)
    assert [file.read(index) for index in range(3)] == payloads[:3]


def _child(file: RecordFile, index: int, answers: multiprocessing.Queue) -> None:  # type: ignore[type-arg]
    answers.put(file.read(index))


def test_pickled_and_forked_copies_read_alike(tmp_path: Path, payloads: list[bytes]) -> None:
    file = RecordFile(write_tfrecords(tmp_path / "a.tfrecords", payloads))
    file.read(100)
    assert pickle.loads(pickle.dumps(file)).read(101) == payloads[101]
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=_child, args=(file, 101, answers))
    child.start()
    assert file.read(101) == payloads[101]
    assert answers.get(timeout=20) == payloads[101]
    child.join(timeout=20)


def test_a_damaged_record_is_named_and_the_others_still_read(tmp_path: Path) -> None:
    payloads = [bytes([value]) * 1000 for value in range(5)]
    path = write_tfrecords(tmp_path / "a.tfrecords", payloads, compress=False)
    data = bytearray(path.read_bytes())
    data[2 * 1016 + 500] ^= 1
    path.write_bytes(data)
    file = RecordFile(path)
    with pytest.raises(ValueError, match=r"a\.tfrecords: record 2: the checksum of its content is wrong"):
        file.read(2)
    assert file.read(3) == payloads[3]
    assert file.read(1) == payloads[1]


def test_a_record_that_claims_too_much_is_refused(tmp_path: Path) -> None:
    length = struct.pack("<Q", 1 << 40)
    path = tmp_path / "a.tfrecords"
    path.write_bytes(length + masked_crc(length) + b"x" * 100)
    with pytest.raises(ValueError, match="record 0: claims 1099511627776 bytes"):
        RecordFile(path).read(0)


def test_a_gzip_bomb_is_refused_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tfrecord, "BOMB_BYTES", 1 << 22)
    path = tmp_path / "a.tfrecords"
    path.write_bytes(gzip.compress(frame(bytes(1 << 22)) * 8, mtime=0))
    file = RecordFile(path)
    with pytest.raises(ValueError, match="decompression bomb, refused"):
        file.scan(None)


def test_features_are_read_packed_or_not() -> None:
    numbers = np.array([0.5, -2.0, 3.25], dtype=np.float32)
    pixels = np.arange(256, dtype=np.uint8)
    for packed in (True, False):
        features = parse_example(example({"x": numbers, "image": pixels}, packed=packed))
        np.testing.assert_array_equal(read_float_feature(features["x"]), numbers)
        np.testing.assert_array_equal(read_bytes_feature(features["image"]), pixels)


def test_one_long_string_is_read_too() -> None:
    value = text(1, text(1, bytes(range(200))))
    features = parse_example(text(1, text(1, text(1, b"image") + text(2, value))))
    np.testing.assert_array_equal(read_bytes_feature(features["image"]), np.arange(200))


def test_a_broken_message_is_an_error() -> None:
    for payload in (b"\x0a\xff", b"\xff" * 20, b"\x0b\x00", b"\x0a\x05\x0a\x09abc"):
        with pytest.raises(ValueError, match=r"message|integer|wire type"):
            parse_example(payload)
