"""Cut, flipped, scrambled and random files: one clear line, or samples that are what they were.

Each case damages one file of a small valid set and reads all of it. Where every byte is under a checksum
(PNG, TFRecord) a sample that comes back must be the undamaged one; elsewhere its form must be right.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from PIL import Image

from cocanet.data.readers import open_source
from cocanet.data.sample import Sample
from tests.data.readers.test_deepmind import factors
from tests.data.readers.writers import (
    blocks,
    example,
    picture,
    planes,
    write_birds,
    write_clevrtex,
    write_flowers,
    write_ocl,
    write_shapestacks,
    write_tfrecords,
)

SECONDS = 10.0


class Target(NamedTuple):
    """A valid set: what to open, which files to damage, and whether checksums cover their pixels."""

    path: Path
    files: list[Path]
    checked: bool
    options: dict[str, Any]


def scene(side: int, entities: int = 3) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(side)
    labels = blocks(generator, side, side, entities)
    return picture(generator, labels), labels


def tfrecord_target(root: Path, compress: bool) -> Target:
    image, labels = scene(35, 4)
    features = {"image": image, "mask": planes(labels, 4), **factors(4, 3, "x", "y", "shape")}
    path = write_tfrecords(root / "a.tfrecords", [example(features)] * 3, compress=compress)
    return Target(path, [path], True, {})


def hdf5_target(root: Path) -> Target:
    image, labels = scene(64, 7)
    options = {"compression": "gzip", "fletcher32": True, "chunks": (1, 64, 64, 1)}
    path = write_ocl(root / "shapestacks-full.hdf5", np.stack([image] * 2), np.stack([labels] * 2), 7, **options)
    return Target(path, [path], False, {})


def clevrtex_target(root: Path) -> Target:
    image, labels = scene(60)
    folder = write_clevrtex(root, [image] * 2, [labels] * 2)
    return Target(folder, sorted(folder.rglob("*.png")), True, {})


def shapestacks_target(root: Path) -> Target:
    image, labels = scene(200)
    write_shapestacks(root, {"a": [image]}, {"a": [labels]})
    files = [*root.rglob("*.png"), *root.rglob("*.map"), root / "splits" / "default" / "train.txt"]
    return Target(root, files, False, {"split": "train"})


def birds_target(root: Path) -> Target:
    image, labels = scene(100)
    write_birds(root, [image] * 2, [labels > 0] * 2, [(30, 30, 40, 40)] * 2, [0, 0], suffix="jpg")
    return Target(root, [*root.glob("*.txt"), *root.rglob("*.jpg"), *root.rglob("*.png")], False, {"split": "train"})


def flowers_target(root: Path) -> Target:
    image, labels = scene(64)
    write_flowers(root, {1: image, 4: image}, {1: labels, 4: labels})
    return Target(root, [root / "setid.mat"] * 3 + [*root.rglob("*.jpg")], False, {"split": "train"})


def folder_target(root: Path) -> Target:
    image, _ = scene(48)
    for suffix in ("png", "jpg", "gif", "bmp", "tif", "webp", "ppm", "tga", "ico", "jp2"):
        Image.fromarray(image).save(root / f"a.{suffix}")
    return Target(root, sorted(root.iterdir()), False, {"size": 48})


TARGETS: dict[str, tuple[str, Callable[[Path], Target], int]] = {
    "tfrecord-gzip": ("deepmind-tfrecord", lambda root: tfrecord_target(root, True), 80),
    "tfrecord-plain": ("deepmind-tfrecord", lambda root: tfrecord_target(root, False), 80),
    "ocl-hdf5": ("ocl-hdf5", hdf5_target, 120),
    "clevrtex": ("clevrtex", clevrtex_target, 100),
    "shapestacks": ("shapestacks", shapestacks_target, 80),
    "birds": ("birds", birds_target, 120),
    "flowers": ("flowers", flowers_target, 120),
    "folder": ("folder", folder_target, 150),
}


def damage(data: bytes, generator: np.random.Generator) -> bytes:
    place = int(generator.integers(0, max(1, len(data))))
    if generator.random() < 0.4:
        place = min(place, int(generator.integers(0, 200)))  # headers decide the most
    changed = bytearray(data)
    match int(generator.integers(0, 6)):
        case 0:
            return data[:place]
        case 1:
            changed[place] ^= 1 << int(generator.integers(0, 8))
        case 2:
            changed[place : place + 8] = generator.bytes(8)
        case 3:
            return generator.bytes(int(generator.integers(0, 500)))
        case 4:
            changed[place:place] = generator.bytes(int(generator.integers(1, 20)))
        case 5:
            changed[place : place + 4] = b"\xff\xff\xff\xff"
    return bytes(changed)


def read_all(format: str, target: Target) -> list[Sample]:
    source = open_source(format, target.path, **target.options)
    return [source[index] for index in range(len(source))]


def same(one: list[Sample], other: list[Sample]) -> bool:
    return len(one) == len(other) and all(
        np.array_equal(a.image, b.image) and np.array_equal(a.labels, b.labels) for a, b in zip(one, other, strict=True)
    )


def assert_clear(error: ValueError, target: Target) -> None:
    line = str(error)
    root = target.path if target.path.is_dir() else target.path.parent
    assert line.startswith((str(root), str(root.resolve()))), line
    assert "\n" not in line
    assert target.path.suffix != ".tfrecords" or ": record " in line, line
    bug = (NameError, AttributeError, AssertionError, UnboundLocalError)
    assert not isinstance(error.__cause__, bug), repr(error.__cause__)
    assert "TypeCheckError" not in line, line


def test_damaged_messages_with_right_checksums(tmp_path: Path) -> None:
    """Wrong payloads under right checksums give an error or a sample of the right form, and soon."""
    image, labels = scene(35, 4)
    features = {"mask": planes(labels, 4), "image": image, **factors(4, 3, "x", "y", "shape")}
    payload = example(dict(reversed(features.items())))
    generator = np.random.default_rng(0)
    refused = 0
    for _ in range(100):
        path = write_tfrecords(tmp_path / "a.tfrecords", [damage(payload, generator)], compress=False)
        target = Target(path, [path], False, {})
        started = time.monotonic()
        try:
            sample = read_all("deepmind-tfrecord", target)[0]
        except ValueError as error:
            assert_clear(error, target)
            refused += 1
        else:
            assert sample.image.shape == (32, 32, 3)
            assert sample.labels.max() <= 3
        assert time.monotonic() - started < SECONDS
    assert refused > 50


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_files(name: str, tmp_path: Path) -> None:
    format, build, cases = TARGETS[name]
    target = build(tmp_path)
    truth = read_all(format, target)
    generator = np.random.default_rng(int(os.environ.get("COCANET_FUZZ_SEED", "0")))
    refused = 0
    for case in range(int(os.environ.get("COCANET_FUZZ_CASES", cases))):
        file = target.files[int(generator.integers(len(target.files)))]
        original = file.read_bytes()
        file.write_bytes(damage(original, generator))
        started = time.monotonic()
        try:
            samples = read_all(format, target)
        except ValueError as error:
            assert_clear(error, target)
            refused += 1
        else:
            assert not target.checked or same(samples, truth), f"case {case} of {file.name}: a wrong sample"
        assert time.monotonic() - started < SECONDS, f"case {case} of {file.name} took too long"
        file.write_bytes(original)
    assert refused > 0.2 * cases
    assert same(read_all(format, target), truth)
