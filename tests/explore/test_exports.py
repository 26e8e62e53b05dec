"""Exported labels are read by others: pycocotools, Pillow, and our own training and evaluation."""

import json

import numpy as np
import pytest
from PIL import Image

from cocanet.cli import main
from cocanet.data.store import Store
from cocanet.explore import editing
from cocanet.explore.exports import Labelled, export
from tests.explore.serving import noise, png, serve, small_explorer, write_images


def labelled(name: str, labels: np.ndarray, categories: dict[int, str] | None = None, seed: int = 0) -> Labelled:
    document = editing.begin(name, "weights", labels, level=2)
    for thing, category in (categories or {}).items():
        document = editing.name(document, [thing], category)
    return Labelled(name, document, lambda: noise(*labels.shape, seed=seed))


@pytest.fixture
def images():
    draw = np.random.default_rng(0)
    first, second = draw.integers(0, 4, (40, 50)), np.zeros((30, 30), dtype=np.int64)
    second[5:12, 8:20] = 1
    return [labelled("a.png", first, {1: "duck", 3: "cat"}), labelled("below/b.jpg", second, {1: "duck"}, seed=1)]


def test_coco_loads_in_pycocotools(images, tmp_path):
    coco = pytest.importorskip("pycocotools.coco", reason="pycocotools is not installed")
    done = export("coco", images, tmp_path, 32)
    assert done.said == "4 objects in 2 images"
    found = coco.COCO(str(done.path))
    names = {category["name"]: category["id"] for category in found.loadCats(found.getCatIds())}
    assert set(names) == {"cat", "duck", "object"}
    for number, image in enumerate(images, 1):
        entry = found.loadImgs(number)[0]
        assert (entry["file_name"], entry["height"], entry["width"]) == (image.name, *image.document.size)
        labels = image.document.labels()
        annotations = found.loadAnns(found.getAnnIds(imgIds=number))
        assert [one["label"] for one in annotations] == list(range(1, labels.max() + 1))
        for one in annotations:
            mask = found.annToMask(one).astype(bool)
            np.testing.assert_array_equal(mask, labels == one["label"])
            assert one["area"] == mask.sum()
            rows, columns = np.nonzero(mask)
            left, top, width, height = one["bbox"]
            assert (left, top) == (columns.min(), rows.min())
            assert (width, height) == (np.ptp(columns) + 1, np.ptp(rows) + 1)
            category = image.document.objects[one["label"] - 1].category or "object"
            assert one["category_id"] == names[category]


def test_label_maps_are_the_labels(images, tmp_path):
    done = export("png", images, tmp_path, 32)
    for image in images:
        picture = Image.open(done.path / f"{image.name}.png")
        np.testing.assert_array_equal(np.asarray(picture), image.document.labels())


def test_a_store_has_images_and_labels(images, tmp_path):
    done = export("store", images, tmp_path, 16)
    store = Store(done.path)
    assert (len(store), store.has_labels, store.background_labels) == (2, True, 1)
    labels = images[1].document.labels()
    expected = np.asarray(Image.fromarray(labels).resize((16, 16), Image.Resampling.NEAREST))
    np.testing.assert_array_equal(store[1].labels, expected)
    again = export("store", images, tmp_path, 16)
    assert again.path.name == "store-2"


def test_nothing_to_export(tmp_path):
    with pytest.raises(ValueError, match="there are no labels to export yet"):
        export("coco", [], tmp_path, 16)


def test_too_many_objects_for_a_store(tmp_path):
    many = labelled("many.png", np.arange(400).reshape(20, 20))
    with pytest.raises(ValueError, match="at most 255"):
        export("store", [many], tmp_path, 20)


@pytest.mark.slow
def test_our_own_commands_read_the_store(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COCANET_CACHE", str(tmp_path / "cache"))
    draw = np.random.default_rng(1)
    images = [labelled(f"{index}.png", draw.integers(0, 3, (32, 32)), seed=index) for index in range(12)]
    store = export("store", images, tmp_path, 32).path
    main(["evaluate", "tetrominoes", "--data", str(store)])
    assert "ARI" in capsys.readouterr().out
    main(["train", "tetrominoes-cpu", "--data", str(store), "--steps", "2", "--batch-size", "2", "--out", "run"])
    assert (tmp_path / "run" / "last.safetensors").exists()


def test_export_through_the_server(tmp_path):
    folder = write_images(tmp_path / "images", 3)
    (folder / "dropped.txt").write_text("not an image")
    with serve(small_explorer(folder)) as running:
        keys = [key for key, _, _ in running.client.get("/api/models/small/gallery").json()["images"]]
        answer = running.client.post("/api/models/small/export/coco")
        assert (answer.status_code, answer.json()["error"][:36]) == (400, "there are no labels to export yet; m")
        running.edit(keys[0], "keep", 0)
        running.edit(keys[2], "name", 0, [1], category="thing")
        dropped = running.client.post("/api/images", content=png(noise(9, 9, seed=5))).json()
        running.edit(dropped["key"], "keep", 0)
        document = folder / "coca-labels" / "0.png.json"
        document.write_text(document.read_text().replace("small", "other"))
        told = running.client.post("/api/models/small/export/coco").json()
        assert told["path"] == str(folder / "coca-labels" / "exported" / "objects.json")
        assert len(told["refused"]) == 1
        assert "0.png.json was edited by something else" in told["refused"][0]
        names = [image["file_name"] for image in json.loads((folder / told["path"]).read_text())["images"]]
        assert names == ["2.png", dropped["name"]]
        assert running.client.post("/api/models/small/export/tar").status_code == 400
