"""Images that are not files of their own: in Parquet files, and where fsspec reaches."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cocanet.predict.inputs import find_images
from cocanet.predict.segment_many import segment_many
from cocanet.predict.segment_settings import OutputSettings
from tests.predict.models import real


def pixels(number: int) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 256, (10 + number, 14, 3), dtype=np.uint8)


def png(number: int) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels(number)).save(file, format="PNG")
    return file.getvalue()


def write_parquet(path: Path, contents: list[bytes]) -> Path:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"image": [{"bytes": content, "path": None} for content in contents]}), path)
    return path


def check_all(inputs, numbers: list[int]) -> None:
    """The pixels are those of these pictures, also after a journey to a worker."""
    for inputs_there in (inputs, pickle.loads(pickle.dumps(inputs))):
        for path, number in zip(inputs_there.files, numbers, strict=True):
            np.testing.assert_array_equal(inputs_there.read(path), pixels(number))


def test_a_parquet_file(tmp_path):
    path = write_parquet(tmp_path / "a.parquet", [png(0), png(1), b"no image"])
    inputs = find_images([path], tmp_path / "out")
    assert [str(inputs.relative(file)) for file in inputs.files] == ["000000.png", "000001.png", "000002.png"]
    check_all(inputs._replace(files=inputs.files[:2]), [0, 1])
    done = segment_many(real(), inputs, OutputSettings(tmp_path / "out"))
    assert done.images == 2
    (failure,) = done.failures
    assert failure.reason == f"{path}: row 2: not an image"
    labels = Image.open(tmp_path / "out" / "labels" / "000001.png")
    assert labels.size == (14, 11)


def test_parquet_files_in_a_folder(tmp_path):
    pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    import pyarrow as pa

    write_parquet(tmp_path / "in" / "a.parquet", [png(0)])
    (tmp_path / "in" / "b.png").write_bytes(png(1))
    write_parquet(tmp_path / "in" / "deep" / "c.parquet", [png(2), png(3)])
    pq.write_table(pa.table({"name": ["no image"]}), tmp_path / "in" / "names.parquet")
    (tmp_path / "in" / "cut.parquet").write_bytes(b"PAR1")
    inputs = find_images([tmp_path / "in"], tmp_path / "out")
    names = [inputs.relative(file).as_posix() for file in inputs.files]
    assert names == ["a.parquet/000000.png", "b.png", "deep/c.parquet/000000.png", "deep/c.parquet/000001.png"]
    check_all(inputs, [0, 1, 2, 3])
    assert [failure.path.name for failure in inputs.failures] == ["cut.parquet"]


@pytest.fixture
def remote(tmp_path) -> Path:
    pytest.importorskip("fsspec", reason="fsspec is not installed")
    for number, name in enumerate(("img2.png", "img10.png", "sub/a.png", ".hidden.png", "notes.txt")):
        (tmp_path / "far" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "far" / name).write_bytes(png(number))
    return tmp_path / "far"


def test_a_url_of_a_folder_a_file_and_a_pattern(tmp_path, remote):
    for url, names, numbers in (
        (f"file://{remote}", ["img2.png", "img10.png", "sub/a.png"], [0, 1, 2]),
        (f"file://{remote}/sub/a.png", ["a.png"], [2]),
        (f"file://{remote}/img*.png", ["img2.png", "img10.png"], [0, 1]),
    ):
        inputs = find_images([url], tmp_path / "out")
        assert [inputs.relative(file).as_posix() for file in inputs.files] == names
        check_all(inputs, numbers)
    with pytest.raises(ValueError, match="nowhere: no such file or folder"):
        find_images([f"file://{remote}/nowhere"], tmp_path / "out")
    with pytest.raises(ValueError, match=r"^nonsense://x: .*nonsense"):
        find_images(["nonsense://x"], tmp_path / "out")
    with pytest.raises(ValueError, match="no images in file://"):
        find_images([f"file://{remote}/*.txt"], tmp_path / "out")


def test_a_url_beside_a_folder(tmp_path, remote):
    (tmp_path / "near").mkdir()
    (tmp_path / "near" / "b.png").write_bytes(png(5))
    inputs = find_images([f"file://{remote}/sub", tmp_path / "near"], tmp_path / "out")
    check_all(inputs, [2, 5])
    assert len({inputs.relative(file) for file in inputs.files}) == 2


def test_archives_by_a_chain_of_urls(tmp_path, remote):
    for archive, number in (("one.zip", 6), ("two.zip", 7)):
        with zipfile.ZipFile(tmp_path / archive, "w") as file:
            file.writestr("a.png", png(number))
    urls = [f"zip://*.png::file://{tmp_path}/{archive}" for archive in ("one.zip", "two.zip")]
    inputs = find_images(urls, tmp_path / "out")
    check_all(inputs, [6, 7])
    done = segment_many(real(), inputs, OutputSettings(tmp_path / "out"))
    assert (done.images, done.failures) == (2, [])


def test_parquet_behind_a_url(tmp_path, remote):
    write_parquet(remote / "b.parquet", [png(8), png(9)])
    inputs = find_images([f"file://{remote}"], tmp_path / "out")
    assert [path.name for path in inputs.files if "b.parquet" in str(path)] == ["000000.png", "000001.png"]
    alone = find_images([f"file://{remote}/b.parquet"], tmp_path / "out")
    assert [alone.relative(file).as_posix() for file in alone.files] == ["000000.png", "000001.png"]
    check_all(alone, [8, 9])
