"""The object-centric library's HDF5 files: independent files of all six, and files that lie."""

from __future__ import annotations

import pickle
from pathlib import Path

import h5py
import numpy as np
import pytest

from cocanet.data.readers import ocl_hdf5 as module
from cocanet.data.readers import open_source
from cocanet.data.readers.base import PUBLISHED_CLEVR6, Sizes
from tests.data.readers.writers import blocks, picture, write_ocl

SETS = [
    ("tetrominoes", 35, 4, 1),
    ("multidsprites_colored_on_grayscale", 64, 6, 1),
    ("objects_room_train", 64, 7, 4),
    ("shapestacks", 64, 7, 1),
    ("clevr_10", 128, 11, 1),
    ("clevrtex", 128, 11, 1),
]


def scenes(side: int, entities: int, counts: list[int]) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(side)
    masks = np.stack([blocks(generator, side, side, count + 1) for count in counts])
    return np.stack([picture(generator, mask) for mask in masks]), masks


@pytest.mark.parametrize("options", [{}, {"compression": "gzip", "fletcher32": True, "chunks": True}])
def test_round_trip(tmp_path: Path, options: dict[str, object]) -> None:
    for name, side, entities, background in SETS:
        image, mask = scenes(side, entities, [entities - 1] * 3)
        path = write_ocl(tmp_path / f"{name}-full.hdf5", image, mask.astype(np.int64), entities, **options)
        (tmp_path / f"{name}-metadata.npy").write_bytes(pickle.dumps(object))
        source = open_source("ocl-hdf5", path)
        assert len(source) == 3
        assert source.background_labels == background
        crop = slice(2, 34) if name == "tetrominoes" else slice(None)
        for index in (2, 0, 1):
            np.testing.assert_array_equal(source[index].image, image[index][crop, crop])
            np.testing.assert_array_equal(source[index].labels, mask[index][crop, crop])
            if background == 1:
                expected = np.arange(index * entities + 1, (index + 1) * entities)
                np.testing.assert_array_equal(source[index].factors["x"], expected)
        copy = pickle.loads(pickle.dumps(source))
        np.testing.assert_array_equal(copy[1].image, source[1].image)


def test_objects_room_labels_are_repaired(tmp_path: Path) -> None:
    mask = np.zeros((1, 64, 64), dtype=np.uint8)
    mask[:, 10:30], mask[:, 30:], mask[:, 25:45, 20:30] = 2, 1, 3
    image = picture(np.random.default_rng(0), mask[0])[None]
    path = write_ocl(tmp_path / "objects_room_train-full.hdf5", image, mask, 7)
    assert set(np.unique(open_source("ocl-hdf5", path)[0].labels)) == {0, 1, 2, 4}


def test_clevr6_and_contiguous_splits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = [3, 10, 6, 7, 5, 4, 8, 3, 9, 6]
    image, mask = scenes(128, 11, counts)
    path = write_ocl(tmp_path / "clevr_10-full.hdf5", image, mask, 11)
    few = [index for index, count in enumerate(counts) if count <= 6]
    six = open_source("ocl-hdf5", path, split="clevr6")
    assert len(six) == len(few)
    for index, record in enumerate(few):
        np.testing.assert_array_equal(six[index].image, image[record])
    monkeypatch.setattr(module, "PUBLISHED_CLEVR6", Sizes(3, 2, 1))
    monkeypatch.setitem(module.SETS, "clevr_10", module.Layout(128, 128, 1, 11, Sizes(7, 2, 1)))
    for split, records in {
        "train": range(7),
        "val": [7, 8],
        "test": [9],
        "clevr6/train": few[:3],
        "clevr6/val": few[3:5],
        "clevr6/test": few[5:6],
    }.items():
        part = open_source("ocl-hdf5", path, split=split)
        assert len(part) == len(records)
        for index, record in enumerate(records):
            np.testing.assert_array_equal(part[index].image, image[record])


def test_published_sizes() -> None:
    assert PUBLISHED_CLEVR6 == (49_483, 2_000, 2_000)
    assert {name: published.sizes for name, published in module.SETS.items()} == {
        name: ((40_000 if name == "clevrtex" else 90_000), 5_000, 5_000) for name, *_ in SETS
    }


def lie(path: Path, name: str) -> None:
    with h5py.File(path, "r+") as file:
        del file["image"]
        match name:
            case "unwritten":
                file.create_dataset("image", shape=(10**9, 64, 64, 3), dtype=np.uint8, chunks=(1, 64, 64, 3))
            case "unwritten contiguous":
                file.create_dataset("image", shape=(10**7, 64, 64, 3), dtype=np.uint8)
            case "external file":
                file.create_dataset("image", (2, 64, 64, 3), np.uint8, external=[("/etc/passwd", 0, 24576)])
            case "external link":
                file["image"] = h5py.ExternalLink("/etc/passwd", "/image")
            case "soft link":
                file["image"] = h5py.SoftLink("/mask")
            case "virtual":
                layout = h5py.VirtualLayout((2, 64, 64, 3), np.uint8)
                layout[:] = h5py.VirtualSource("other.hdf5", "image", (2, 64, 64, 3))
                file.create_virtual_dataset("image", layout)
            case "huge pieces":
                shape = (4, 64, 64, 3)
                chunks, limits = (1 << 16, 64, 64, 3), (None, 64, 64, 3)
                file.create_dataset("image", shape, np.uint8, chunks=chunks, maxshape=limits, compression="gzip")
            case "group":
                file.create_group("image")
            case "floats":
                file["image"] = np.zeros((2, 64, 64, 3))
            case "strings":
                file["image"] = np.array([b"a", b"b"])
            case "shape":
                file["image"] = np.zeros((2, 64, 32, 3), np.uint8)


def test_files_that_lie_are_refused(tmp_path: Path) -> None:
    messages = {
        "unwritten": "claims the shape",
        "unwritten contiguous": "does not hold",
        "external file": "lies in another file, refused",
        "external link": "link to somewhere else, refused",
        "soft link": "link to somewhere else, refused",
        "virtual": "lies in another file, refused",
        "huge pieces": "has pieces of",
        "group": "not an array",
        "floats": "expected uint8",
        "strings": "expected",
        "shape": "expected",
        "missing": "no array named 'image'",
    }
    image, mask = scenes(64, 7, [3, 3])
    for name, message in messages.items():
        path = write_ocl(tmp_path / "shapestacks-full.hdf5", image, mask, 7)
        lie(path, name)
        with pytest.raises(ValueError, match=rf"shapestacks-full\.hdf5: .*{message}"):
            open_source("ocl-hdf5", path)


def test_the_file_name_names_the_set(tmp_path: Path) -> None:
    image, mask = scenes(64, 7, [3])
    path = write_ocl(tmp_path / "mine.hdf5", image, mask, 7)
    with pytest.raises(ValueError, match=r"the file's name names the set, one of tetrominoes-full\.hdf5"):
        open_source("ocl-hdf5", path)


def test_a_label_without_an_entity_is_refused(tmp_path: Path) -> None:
    image, mask = scenes(64, 7, [3])
    path = write_ocl(tmp_path / "shapestacks-full.hdf5", image, mask, 7)
    with h5py.File(path, "r+") as file:
        file["mask"][0, 0, 0, 0] = 9
    with pytest.raises(ValueError, match="record 0: label 9 in a file of 7 entities"):
        open_source("ocl-hdf5", path)[0]
