"""Parquet files as Hugging Face writes them, and as others might."""

from __future__ import annotations

import io
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from cocanet.cli import main
from cocanet.data.readers import open_source
from cocanet.data.readers.input_files import DamagedFile, NoImages
from cocanet.data.store import Store

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")


def picture(seed: int, height: int = 16, width: int = 16) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def png(pixels: np.ndarray, **options: Any) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, **{"format": "PNG", **options})
    return file.getvalue()


def mask(seed: int) -> np.ndarray:
    """Four squares with values of 0, 3, 7 and 200."""
    values = np.random.default_rng(seed).permutation([0, 3, 7, 200]).reshape(2, 2).astype(np.uint8)
    return values.repeat(8, 0).repeat(8, 1)


def write(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, **options)
    return path


def structs(contents: list[bytes | None]) -> Any:
    return [{"bytes": content, "path": f"{number}.png"} for number, content in enumerate(contents)]


def test_images_of_every_kind_of_column(tmp_path):
    contents = [png(picture(number)) for number in range(7)]
    for column in (structs(contents), contents, pa.array(contents, pa.large_binary())):
        path = write(tmp_path / "a.parquet", {"label": list(range(7)), "photo": column}, row_group_size=3)
        source = open_source("parquet", path, size=16)
        assert (len(source), source.has_labels, source.recipe["column"]) == (7, False, "photo")
        for number in (6, 0, 3, 2, 5):
            np.testing.assert_array_equal(source[number].image, picture(number))
        again = pickle.loads(pickle.dumps(source))
        np.testing.assert_array_equal(again[4].image, picture(4))


def test_masks_number_their_values(tmp_path):
    columns = {"image": structs([png(picture(n)) for n in range(3)]), "mask": structs([png(mask(n)) for n in range(3)])}
    source = open_source("parquet", write(tmp_path / "a.parquet", columns), size=16, masks="mask")
    assert (source.has_labels, source.background_labels) == (True, 1)
    for number in range(3):
        expected = np.searchsorted([0, 3, 7, 200], mask(number))
        np.testing.assert_array_equal(source[number].labels, expected)
    columns["mask"] = structs([png(mask(0), format="JPEG")] * 3)
    source = open_source("parquet", write(tmp_path / "b.parquet", columns), size=16, masks="mask")
    with pytest.raises(DamagedFile, match="row 1: JPEG blurs the values of a mask"):
        source[1]


def test_photographs_are_cropped_as_a_folder_s_are(tmp_path):
    pixels = picture(0, 20, 33)
    write(tmp_path / "a.parquet", {"image": [png(pixels)]})
    (tmp_path / "photos").mkdir()
    Image.fromarray(pixels).save(tmp_path / "photos" / "a.png")
    one, other = (open_source(*where, size=12)[0] for where in (
        ("parquet", tmp_path / "a.parquet"), ("folder", tmp_path / "photos"),
    ))  # fmt: skip
    np.testing.assert_array_equal(one.image, other.image)


def test_a_folder_of_files_and_its_splits(tmp_path):
    for first, name in ((0, "data/train-00000-of-00002"), (2, "data/train-00001-of-00002"), (4, "data/test-00000")):
        write(tmp_path / f"{name}.parquet", {"image": structs([png(picture(first + n)) for n in range(2)])})
    (tmp_path / "_hidden.parquet").write_bytes(b"ignored")
    assert len(open_source("parquet", tmp_path, size=16)) == 6
    train = open_source("parquet", tmp_path, size=16, split="train")
    for number in range(4):
        np.testing.assert_array_equal(train[number].image, picture(number))
    assert len(open_source("parquet", tmp_path, size=16, split="test")) == 2
    with pytest.raises(ValueError, match=r"split 'val': no file of .* begins with it; there are test, train"):
        open_source("parquet", tmp_path, split="val")


def test_which_column(tmp_path):
    content = [png(picture(0))]
    path = write(tmp_path / "a.parquet", {"left": content, "right": structs(content), "name": ["a"]})
    with pytest.raises(ValueError, match="several columns may be the images, name one: left, right"):
        open_source("parquet", path)
    assert open_source("parquet", path, column="right").recipe["column"] == "right"
    with pytest.raises(ValueError, match="no column 'middle'; there are left, right, name"):
        open_source("parquet", path, column="middle")
    with pytest.raises(ValueError, match="the column 'name' is of type string; expected bytes"):
        open_source("parquet", path, column="name")
    declared = {b"huggingface": json.dumps({"info": {"features": {"right": {"_type": "Image"}}}}).encode()}
    pq.write_table(pq.read_table(path).replace_schema_metadata(declared), path)
    assert open_source("parquet", path).recipe["column"] == "right"
    with pytest.raises(NoImages, match=r"b\.parquet: no column of images; there are name"):
        open_source("parquet", write(tmp_path / "b.parquet", {"name": ["a"]}))
    with pytest.raises(ValueError, match="only the format parquet has columns"):
        open_source("folder", tmp_path, column="left")


def test_rows_that_cannot_be_read(tmp_path):
    contents = [png(picture(0)), b"", None, png(picture(3)), png(picture(4))[:-20]]
    path = write(tmp_path / "a.parquet", {"image": structs(contents)})
    source = open_source("parquet", path, size=16)
    reasons = {1: "the file is empty", 2: "no bytes, only the path '2.png'", 4: "the PNG file is cut off"}
    for row, reason in reasons.items():
        with pytest.raises(DamagedFile, match=rf"a\.parquet: row {row}: {reason}"):
            source[row]
    left = open_source("parquet", path, size=16, skip_damaged=True)
    assert (len(left), len(left.recipe["left_out"])) == (2, 3)
    np.testing.assert_array_equal(left[1].image, picture(3))


def test_files_that_are_not_parquet(tmp_path):
    for content in (b"", b"PAR1", b"PAR1" + b"\xff" * 40 + b"PAR1"):
        (tmp_path / "a.parquet").write_bytes(content)
        with pytest.raises(DamagedFile, match=r"a\.parquet: "):
            open_source("parquet", tmp_path / "a.parquet")


def test_an_extension_type_is_refused(tmp_path):
    """Such a type may unpickle what is stored as bytes."""

    class Pickled(pa.ExtensionType):
        def __init__(self) -> None:
            super().__init__(pa.binary(), "some.pickled")

        def __arrow_ext_serialize__(self) -> bytes:
            return b""

        @classmethod
        def __arrow_ext_deserialize__(cls, storage: Any, serialized: bytes) -> Any:
            return cls()

    pa.register_extension_type(Pickled())
    try:
        stored = pa.ExtensionArray.from_storage(Pickled(), pa.array([b"x"], pa.binary()))
        path = write(tmp_path / "a.parquet", {"image": stored})
        with pytest.raises(NoImages, match="no column of images"):
            open_source("parquet", path)
    finally:
        pa.unregister_extension_type("some.pickled")


def test_the_command(tmp_path, capsys):
    columns = {"image": structs([png(picture(n)) for n in range(4)]), "mask": structs([png(mask(n)) for n in range(4)])}
    write(tmp_path / "a.parquet", columns)
    main(["import", "parquet", str(tmp_path / "a.parquet"), "--masks", "mask", "--size", "16",
          "--out", str(tmp_path / "store")])  # fmt: skip
    store = Store(tmp_path / "store")
    assert (len(store), store.recipe["name"]) == (4, "parquet")
    np.testing.assert_array_equal(store[2].image, picture(2))
