"""Exported labels are read by others: pycocotools, Pillow, and our own training and evaluation."""

import json

import numpy as np
import pytest
from PIL import Image

from cocanet.cli import main
from cocanet.config import DataConfig, Preset
from cocanet.data.loader import Loader, LoaderConfig
from cocanet.data.store import Store
from cocanet.explore import editing
from cocanet.explore.export_labels import LabelledImage, export_labels
from cocanet.io.weights import write_weights
from cocanet.models.build import build
from tests.explore.servers import noise, png, serve, small_explorer, write_images
from tests.tiny import SQUARE


def labelled(name: str, labels: np.ndarray, categories: dict[int, str] | None = None, seed: int = 0) -> LabelledImage:
    document = editing.begin(name, "weights", labels, level=2)
    for segment, category in (categories or {}).items():
        document = editing.set_category(document, [segment], category)
    return LabelledImage(name, document, lambda: noise(*labels.shape, seed=seed))


@pytest.fixture
def images():
    draw = np.random.default_rng(0)
    first, second = draw.integers(0, 4, (40, 50)), np.zeros((30, 30), dtype=np.int64)
    second[5:12, 8:20] = 1
    return [labelled("a.png", first, {1: "duck", 3: "cat"}), labelled("below/b.jpg", second, {1: "duck"}, seed=1)]


def test_coco_loads_in_pycocotools(images, tmp_path):
    coco = pytest.importorskip("pycocotools.coco", reason="pycocotools is not installed")
    done = export_labels("coco", images, tmp_path, 32)
    assert done.summary == "4 objects in 2 images"
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
    done = export_labels("png", images, tmp_path, 32)
    for image, name in zip(images, ("a.png", "below/b.png"), strict=True):
        picture = Image.open(done.path / name)
        np.testing.assert_array_equal(np.asarray(picture), image.document.labels())


def test_a_store_has_images_and_labels(images, tmp_path):
    done = export_labels("store", images, tmp_path, 16)
    store = Store(done.path)
    assert (len(store), store.has_labels, store.background_labels) == (2, True, 1)
    labels = images[1].document.labels()
    expected = np.asarray(Image.fromarray(labels).resize((16, 16), Image.Resampling.NEAREST))
    np.testing.assert_array_equal(store[1].labels, expected)
    again = export_labels("store", images, tmp_path, 16)
    assert again.path.name == "store-2"


def test_nothing_to_export(tmp_path):
    with pytest.raises(ValueError, match="there are no labels to export yet"):
        export_labels("coco", [], tmp_path, 16)


def test_too_many_objects_for_a_store(tmp_path):
    many = labelled("many.png", np.arange(400).reshape(20, 20))
    with pytest.raises(ValueError, match="at most 255"):
        export_labels("store", [many], tmp_path, 20)


def test_the_store_is_read_for_training_and_evaluation(tmp_path, capsys):
    draw = np.random.default_rng(1)
    images = [labelled(f"{index}.png", draw.integers(0, 3, (32, 32)), seed=index) for index in range(4)]
    store = export_labels("store", images, tmp_path, 32).path
    (batch,) = Loader(Store(store), LoaderConfig(4, shuffle=False)).epoch()
    assert batch.images.shape == (4, 3, 32, 32)
    weights, preset = tmp_path / "w.safetensors", Preset("small", SQUARE, DataConfig("tetrominoes"))
    write_weights(weights, preset, build(preset, seed=0).state_dict(), {})
    main(["evaluate", str(weights), "--data", str(store)])
    assert "ARI" in capsys.readouterr().out


def test_export_through_the_server(tmp_path):
    folder = write_images(tmp_path / "images", 3)
    (folder / "dropped.txt").write_text("not an image")
    with serve(small_explorer(folder)) as running:
        keys = running.keys()
        answer = running.client.post("/api/models/small/export/coco")
        assert (answer.status_code, answer.json()["error"][:36]) == (400, "there are no labels to export yet; m")
        running.edit(keys[0], "keep", 0)
        running.edit(keys[2], "keep", 0, refine=True)
        dropped = running.client.post("/api/images", content=png(noise(9, 9, seed=5))).json()
        running.edit(dropped["key"], "keep", 0)
        document = folder / "coca-labels" / "0.png.json"
        document.write_text(document.read_text().replace("small", "other"))
        answer = running.client.post("/api/models/small/export/coco").json()
        assert answer["path"] == str(folder / "coca-labels" / "exported" / "objects.json")
        assert len(answer["errors"]) == 1
        assert "0.png.json was edited by another program" in answer["errors"][0]
        images = json.loads((folder / answer["path"]).read_text())["images"]
        assert [(image["file_name"], image.get("refined", False)) for image in images] == [
            ("2.png", True),
            (dropped["name"], False),
        ]
        assert running.client.post("/api/models/small/export/tar").status_code == 400
