"""DeepMind's four families: the real Tetrominoes records, and independent files of every layout."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from cocanet.data.readers import open_source
from tests.data.readers.writers import (
    blocks,
    example,
    picture,
    planes,
    reference_bilinear,
    reference_nearest,
    write_tfrecords,
)


def factors(entities: int, visible: int, *names: str) -> dict[str, np.ndarray]:
    """Different numbers everywhere; the background and `visible` objects are there."""
    numbers = {name: np.arange(entities, dtype=np.float32) + 10 * row for row, name in enumerate(names)}
    colour = np.linspace(0, 1, 3 * entities, dtype=np.float32).reshape(entities, 3)
    return {**numbers, "color": colour, "visibility": (np.arange(entities) <= visible).astype(np.float32)}


def test_real_tetrominoes(samples: Path) -> None:
    """The pixels of the file, found without any parsing: 3675 and 4900 one-byte strings after their names."""
    path = samples / "tetrominoes" / "tetrominoes_mini.tfrecords"
    source = open_source("deepmind-tfrecord", path)
    assert len(source) == 10
    assert source.background_labels == 1
    raw = gzip.decompress(path.read_bytes())
    for index in range(10):
        record = raw[index * 25960 : (index + 1) * 25960]
        start, mask_start = record.index(b"image") + 11, record.index(b"mask") + 10
        assert record[start : start + 2] == record[mask_start : mask_start + 2] == b"\n\x01"
        image = np.frombuffer(record[start : start + 3 * 3675], np.uint8)[2::3].reshape(35, 35, 3)
        masks = np.frombuffer(record[mask_start : mask_start + 3 * 4900], np.uint8)[2::3].reshape(4, 35, 35)
        sample = source[index]
        np.testing.assert_array_equal(sample.image, image[2:34, 2:34])
        for label in range(4):
            np.testing.assert_array_equal(sample.labels == label, masks[label, 2:34, 2:34] == 255)
        assert sample.factors["color"].shape == (3, 3)
        for row, column, label in zip(sample.factors["x"], sample.factors["y"], (1, 2, 3), strict=True):
            rows, columns = np.nonzero(masks[label])
            assert (rows.min(), columns.min()) == (row, column)


def test_multi_dsprites(tmp_path: Path) -> None:
    for name, entities in (("grey", 6), ("colour", 5), ("binarized", 4)):
        generator = np.random.default_rng(entities)
        written, payloads = [], []
        for number in range(4):
            visible = entities - 1 - number % 2
            labels = blocks(generator, 64, 64, visible + 1)
            image = picture(generator, labels)
            if name == "binarized":
                image = np.repeat((labels[..., None] > 0).astype(np.uint8) * 255, 3, axis=2)
            stored = image[..., :1] if name == "binarized" else image
            extra = factors(entities, visible, "x", "y", "shape", "orientation", "scale")
            payloads.append(example({"mask": planes(labels, entities, last=True), "image": stored, **extra}))
            written.append((image, labels, extra, visible))
        source = open_source("deepmind-tfrecord", write_tfrecords(tmp_path / f"{name}.tfrecords", payloads))
        assert source.recipe["set"] == "multi_dsprites"
        for index in (3, 0, 1, 2):
            image, labels, extra, visible = written[index]
            np.testing.assert_array_equal(source[index].image, image)
            np.testing.assert_array_equal(source[index].labels, labels)
            for key, values in source[index].factors.items():
                np.testing.assert_array_equal(values, extra[key][1 : visible + 1])


def test_objects_that_are_not_there_leave_no_gap(tmp_path: Path) -> None:
    labels = np.zeros((64, 64), dtype=np.uint8)
    labels[:10], labels[50:] = 2, 4
    extra = factors(6, 0, "x")
    extra["visibility"] = np.array([1, 0, 1, 0, 1, 0], dtype=np.float32)
    image = picture(np.random.default_rng(0), labels)
    payload = example({"image": image, "mask": planes(labels, 6, last=True), **extra})
    sample = open_source("deepmind-tfrecord", write_tfrecords(tmp_path / "a.tfrecords", [payload]))[0]
    assert np.unique(sample.labels[:10]) == 1
    assert np.unique(sample.labels[50:]) == 2
    np.testing.assert_array_equal(sample.factors["x"], [2, 4])


def test_objects_room(tmp_path: Path) -> None:
    for entities in (7, 10, 4):
        generator = np.random.default_rng(entities)
        labels = np.zeros((64, 64), dtype=np.uint8)
        labels[10:30, :40], labels[10:30, 40:], labels[30:] = 2, 3, 1
        for number in range(4, entities):
            labels[40:50, 6 * number - 20 : 6 * number - 16] = number
        image = picture(generator, labels)
        path = write_tfrecords(
            tmp_path / f"{entities}.tfrecords", [example({"image": image, "mask": planes(labels, entities)})]
        )
        source = open_source("deepmind-tfrecord", path)
        assert source.background_labels == 4
        np.testing.assert_array_equal(source[0].image, image)
        np.testing.assert_array_equal(source[0].labels, labels)
        assert not source[0].factors


def clevr_records(tmp_path: Path, visible: list[int]) -> tuple[Path, list[tuple[np.ndarray, np.ndarray]]]:
    generator = np.random.default_rng(5)
    written, payloads = [], []
    for count in visible:
        labels = blocks(generator, 240, 320, count + 1)
        image = picture(generator, labels)
        extra = factors(11, count, "x", "y", "z", "rotation")
        extra["pixel_coords"] = np.zeros((11, 3), dtype=np.float32)
        extra |= {name: np.ones(11, dtype=np.uint8) for name in ("size", "material", "shape")}
        extra["color"] = np.arange(11, dtype=np.uint8)
        payloads.append(example({"image": image, "mask": planes(labels, 11), **extra}))
        written.append((image, labels))
    return write_tfrecords(tmp_path / "clevr.tfrecords", payloads), written


def test_clevr_crop_and_filter(tmp_path: Path) -> None:
    path, written = clevr_records(tmp_path, [10, 6])
    source = open_source("deepmind-tfrecord", path)
    assert len(source) == 2
    for index, (image, labels) in enumerate(written):
        sample = source[index]
        expected = reference_bilinear(image[29:221, 64:256], 128).astype(int)
        assert np.abs(sample.image.astype(int) - expected).max() <= 1
        np.testing.assert_array_equal(sample.labels, reference_nearest(labels[29:221, 64:256], 128))
        assert sample.factors["color"].dtype == np.uint8
    six = open_source("deepmind-tfrecord", path, split="clevr6")
    assert len(six) == 1
    np.testing.assert_array_equal(six[0].image, source[1].image)


def test_a_folder_of_files_in_natural_order(tmp_path: Path) -> None:
    labels = np.zeros((64, 64), dtype=np.uint8)
    for number in (10, 2, 1):
        image = np.full((64, 64, 3), number, dtype=np.uint8)
        payload = example({"image": image, "mask": planes(labels, 4)})
        write_tfrecords(tmp_path / f"part-{number}.tfrecords", [payload, payload])
    source = open_source("deepmind-tfrecord", tmp_path)
    assert [int(source[index].image[0, 0, 0]) for index in range(6)] == [1, 1, 2, 2, 10, 10]


def test_a_short_file_has_no_published_split(samples: Path) -> None:
    path = samples / "tetrominoes" / "tetrominoes_mini.tfrecords"
    with pytest.raises(ValueError, match="ends at 95000, but there are 10 samples; leave the split out"):
        open_source("deepmind-tfrecord", path, split="val")
    with pytest.raises(ValueError, match="expected one of train, val, test"):
        open_source("deepmind-tfrecord", path, split="clevr6/train")


def test_foreign_records_are_refused(tmp_path: Path) -> None:
    good = example({"image": np.zeros((64, 64, 3), np.uint8), "mask": np.zeros((64, 64, 4), np.uint8)})
    bad_mask = example({"image": np.zeros((64, 64, 3), np.uint8), "mask": np.full((64, 64, 4), 7, np.uint8)})
    other = example({"image": np.zeros(100, np.uint8), "mask": np.zeros(100, np.uint8)})
    source = open_source("deepmind-tfrecord", write_tfrecords(tmp_path / "a.tfrecords", [good, bad_mask, other]))
    with pytest.raises(ValueError, match=r"record 1: a mask holds values other than 0 and 255"):
        source[1]
    with pytest.raises(ValueError, match=r"record 2: an image of 100 and a mask of 100 bytes belong to no"):
        source[2]
    with pytest.raises(ValueError, match="record 0: no feature named image, mask"):
        open_source("deepmind-tfrecord", write_tfrecords(tmp_path / "b.tfrecords", [example({})]))
