"""COCO output against pycocotools."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from cocanet.data.annotations.run_lengths import compress, decode_mask
from cocanet.predict.coco import AnnotationFile, annotate, encode_mask
from cocanet.predict.prediction import Segmentation

coco_masks = pytest.importorskip("pycocotools.mask", reason="pycocotools is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:pycocotools.*")
SHAPES = array_shapes(min_dims=2, max_dims=2, max_side=40)


def segmentation_of(labels: np.ndarray) -> Segmentation:
    values, numbered = np.unique(labels, return_inverse=True)
    count = len(values)
    return Segmentation(
        image=np.zeros((*labels.shape, 3), np.uint8),
        labels=numbered.reshape(labels.shape).astype(np.int32),
        slots=np.zeros((count, 2), np.float32),
        numbers=np.arange(count),
        confidence=np.linspace(0.5, 1, count),
    )


@given(arrays(bool, SHAPES))
def test_a_mask_is_encoded_as_pycocotools_does(mask):
    ours = encode_mask(mask)
    theirs = coco_masks.encode(np.asfortranarray(mask.astype(np.uint8)))
    assert ours == {"size": list(theirs["size"]), "counts": theirs["counts"].decode()}
    np.testing.assert_array_equal(coco_masks.decode(ours), mask)


def test_masks_of_one_value():
    for shape in ((1, 1), (1, 300), (300, 1), (70, 90)):
        for value in (True, False):
            mask = np.full(shape, value)
            np.testing.assert_array_equal(coco_masks.decode(encode_mask(mask)), mask)


def test_long_runs_and_large_steps():
    """Lengths up to four million, and differences of both signs, against the format spelt out in a loop."""
    counts = np.array([0, 31, 4_000_000, 1, 16, 900, 15, 70_000, 1_000_000, 32, 17])
    assert compress(counts) == spelt_out(counts.tolist())
    mask = np.repeat(np.arange(len(counts)) % 2 == 1, counts)[None].T
    np.testing.assert_array_equal(coco_masks.decode(encode_mask(mask)), mask)


def spelt_out(counts: list[int]) -> str:
    text = ""
    for place, count in enumerate(counts):
        left = count - counts[place - 2] if place > 2 else count
        while True:
            group, left = left % 32, left // 32
            last = left == (-1 if group >= 16 else 0)
            text += chr(48 + group + (0 if last else 32))
            if last:
                break
    return text


@given(arrays(np.int64, SHAPES, elements=st.integers(0, 6)), st.booleans())
def test_a_label_map_comes_back_exactly(labels, keep_background):
    found = segmentation_of(labels)
    again, covered = np.zeros(found.size, int), np.zeros(found.size, int)
    entries = annotate(found, 5, keep_background)
    assert len(entries) == len(found.segments) - (not keep_background)
    for entry in entries:
        mask = coco_masks.decode(entry["segmentation"]).astype(bool)
        again[mask] = entry["label"]
        covered += mask
        assert entry["image_id"] == 5
        assert entry["area"] == coco_masks.area(entry["segmentation"]) == mask.sum()
        np.testing.assert_array_equal(entry["bbox"], coco_masks.toBbox(entry["segmentation"]))
        assert entry["background"] == (entry["category_id"] == 2) == (entry["label"] == 0)
    assert covered.max(initial=0) <= 1
    np.testing.assert_array_equal(again, found.labels)


def test_the_file_is_there_whole_or_not_at_all(tmp_path, capsys):
    from pycocotools.coco import COCO

    path = tmp_path / "objects.json"
    found = segmentation_of(np.eye(4, dtype=int))
    with AnnotationFile(path, {"description": "test"}) as file:
        for number in (1, 2):
            image = {"id": number, "file_name": f"é{number}.png", "width": 4, "height": 4}
            file.add(image, annotate(found, number, True))
        assert not path.exists()
    coco = COCO(path)
    assert sorted(coco.getAnnIds()) == [1, 2, 3, 4]
    assert coco.getImgIds() == [1, 2]
    assert coco.loadImgs(2)[0]["file_name"] == "é2.png"
    np.testing.assert_array_equal(coco.annToMask(coco.loadAnns(4)[0]), np.eye(4))

    before = path.read_bytes()
    with pytest.raises(TypeError, match="not JSON serializable"), AnnotationFile(path, {}) as file:
        file.add(image, [*annotate(found, 1, True), {"area": object()}])
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_without_images_is_valid(tmp_path):
    with AnnotationFile(tmp_path / "objects.json", {}):
        pass
    content = json.loads((tmp_path / "objects.json").read_text())
    assert content["images"] == content["annotations"] == []
    assert [category["id"] for category in content["categories"]] == [1, 2]


@given(arrays(bool, SHAPES))
def test_masks_come_back(mask):
    np.testing.assert_array_equal(decode_mask(encode_mask(mask)), mask)
    theirs = coco_masks.encode(np.asfortranarray(mask.astype(np.uint8)))
    np.testing.assert_array_equal(decode_mask({"size": theirs["size"], "counts": theirs["counts"].decode()}), mask)


def test_damaged_runs_are_refused():
    for counts in ("", "~~", "o", "o" * 40 + "0"):
        with pytest.raises(ValueError, match="is not COCO's text of run lengths"):
            decode_mask({"size": [2, 2], "counts": counts})
    with pytest.raises(ValueError, match="the runs of a mask have 3 pixels; expected 2×2"):
        decode_mask({"size": [2, 2], "counts": "3"})
