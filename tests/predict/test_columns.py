"""The callable for other libraries' tables."""

from __future__ import annotations

import io
import pickle

import numpy as np
import pytest
from PIL import Image

from cocanet.predict import load
from cocanet.predict.columns import ColumnSegmenter
from tests.predict.models import weights_file


def pixels(number: int) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 256, (16 + number, 20, 3), dtype=np.uint8)


def png(number: int) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels(number)).save(file, format="PNG")
    return file.getvalue()


def test_kinds_of_image(place, tmp_path):
    (tmp_path / "a.png").write_bytes(png(0))
    values = [
        pixels(0), Image.fromarray(pixels(0)), png(0), str(tmp_path / "a.png"),
        {"bytes": png(0), "path": None}, {"bytes": None, "path": str(tmp_path / "a.png")},
    ]  # fmt: skip
    batch = {"picture": values, "label": list("abcdef")}
    made = ColumnSegmenter(place.weights, image="picture")(batch)
    assert made.keys() == {"picture", "label", "objects", "error"}
    assert made["error"] == [""] * 6
    assert all(objects == made["objects"][0] for objects in made["objects"])
    found = load(place.weights).segment(pixels(0))
    for row, segment, vector in zip(made["objects"][0], found.segments, found.slots, strict=True):
        assert (row["label"], row["area"], row["box"]) == (segment.label, segment.area, list(segment.box))
        np.testing.assert_allclose(row["vector"], vector, atol=1e-5)


def test_bad_images_have_errors_and_settings_count(place):
    columns = ColumnSegmenter(place.weights, level=1, components=True, objects="parts", error="why")
    made = columns({"image": [b"no image", png(1), None]})
    assert made["why"][0] == "image: not an image"
    assert made["why"][1] == ""
    assert "expected an image" in made["why"][2]
    assert [len(parts) for parts in made["parts"]][::2] == [0, 0]
    assert len(made["parts"][1]) == len(load(place.weights).segment(pixels(1), level=1, components=True).segments)
    with pytest.raises(ValueError, match="no column 'image'; there are picture"):
        columns({"picture": [png(1)]})
    with pytest.raises(ValueError, match="level must lie in"):
        ColumnSegmenter(place.weights, level=9)({"image": [png(1)]})
    with pytest.raises(TypeError, match="unexpected keyword argument 'levl'"):
        ColumnSegmenter(place.weights, levl=1)


@pytest.mark.parametrize("options", [{"temperature": 0.02}, {"dynamic": True, "scope_threshold": 0.6}], ids=str)
def test_all_settings_of_a_segmenter(tmp_path, options):
    weights = weights_file(tmp_path / "w.safetensors")
    (rows,) = ColumnSegmenter(weights, **options)({"image": [pixels(3)]})["objects"]
    areas = [row["area"] for row in rows]
    found, plain = (load(weights).segment(pixels(3), **changes) for changes in (options, {}))
    assert areas == [segment.area for segment in found.segments]
    assert areas != [segment.area for segment in plain.segments]


def test_it_is_pickled_without_the_model(place):
    columns = ColumnSegmenter(place.weights)
    before = pickle.dumps(columns)
    made = columns({"image": [png(1)]})
    assert pickle.dumps(columns) == before
    assert len(before) < 2000
    assert pickle.loads(before)({"image": [png(1)]}) == made


def test_hugging_face_datasets(place, tmp_path):
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    table = {"image": [{"bytes": png(number), "path": None} for number in range(5)], "label": list(range(5))}
    features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("int64")})
    made = datasets.Dataset.from_dict(table, features).map(ColumnSegmenter(place.weights), batched=True, batch_size=2)
    assert made.column_names == ["image", "label", "objects", "error"]
    segmenter = load(place.weights)
    for number in range(5):
        found = segmenter.segment(pixels(number))
        assert [row["area"] for row in made[number]["objects"]] == [segment.area for segment in found.segments]
