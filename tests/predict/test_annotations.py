"""Annotations in other formats, read back by the formats' own readers where PyPI has them, and by `coca import`."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from cocanet.data.annotations.polygons import outlines
from cocanet.data.readers import open_source
from cocanet.predict.annotations import encode_brush
from cocanet.predict.inputs import find_images
from cocanet.predict.segment_many import segment_many
from cocanet.predict.segment_settings import OutputSettings, SegmentSettings
from tests.predict.models import by_colour

SIZE = 32


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Images of red, green and blue areas with parts and holes, and the files of `coca segment --also`."""
    path = tmp_path_factory.mktemp("annotations")
    (path / "photos" / "day").mkdir(parents=True)
    draw = np.random.default_rng(0)
    for index in range(3):
        areas = draw.integers(0, 3, (SIZE // 4, SIZE // 4)).repeat(4, 0).repeat(4, 1)
        image = (np.eye(3, dtype=np.uint8) * 255)[areas]
        Image.fromarray(image).save(path / "photos" / ("day" if index else ".") / f"{index}.png")
    output = OutputSettings(out=path / "found", also=("voc", "yolo", "label-studio"))
    settings = SegmentSettings(min_area=0, min_score=0)
    segment_many(by_colour((SIZE, SIZE)), find_images([path / "photos"], output.out), output, settings)
    return path / "found"


def label_maps(found):
    return {
        path.relative_to(found / "labels").with_suffix("").as_posix(): np.asarray(Image.open(path))
        for path in sorted((found / "labels").rglob("*.png"))
    }


def same_partition(first, second) -> bool:
    pairs = {(int(a), int(b)) for a, b in zip(first.flat, second.flat, strict=True)}
    return len(pairs) == len(np.unique(first)) == len(np.unique(second)) and (0, 0) in pairs


@pytest.mark.parametrize("kind", ["voc", "yolo", "coco"])
def test_import_gives_the_masks_back_exactly(found, kind):
    path = found / (kind if kind != "coco" else "objects.json")
    source = open_source(kind, path, size=SIZE, images=found.parent / "photos" if kind == "coco" else None)
    maps = label_maps(found)
    assert len(source) == len(maps) == 3
    assert all(any(same_partition(sample.labels, labels) for labels in maps.values()) for sample in source)


def test_voc_boxes_are_those_of_its_masks(found):
    for name, labels in label_maps(found).items():
        assert np.array_equal(np.asarray(Image.open(found / "voc" / "SegmentationObject" / f"{name}.png")), labels)
        boxes = ElementTree.parse(found / "voc" / "Annotations" / f"{name}.xml").findall("object/bndbox")
        for label, box in enumerate(boxes, 1):
            rows, columns = np.nonzero(labels == label)
            expected = [columns.min() + 1, rows.min() + 1, columns.max() + 1, rows.max() + 1]
            assert [int(edge.text or "") for edge in box] == expected
    names = (found / "voc" / "ImageSets" / "Segmentation" / "all.txt").read_text().split()
    assert sorted(names) == sorted(label_maps(found))


def decode_brush(code: list[int]) -> np.ndarray:
    """The format's decoder, bit by bit."""
    bits = "".join(f"{byte:08b}" for byte in code)
    at = 0

    def read(count: int) -> int:
        nonlocal at
        at += count
        return int(bits[at - count : at], 2)

    count, word = read(32), read(5) + 1
    sizes = [read(4) + 1 for _ in range(4)]
    values: list[int] = []
    while len(values) < count:
        same, length = read(1), read(sizes[read(2)]) + 1
        values += [read(word)] * length if same else [read(word) for _ in range(length)]
    return np.array(values, dtype=np.uint8)


def test_label_studio(found):
    tasks = json.loads((found / "label-studio" / "tasks.json").read_text())
    maps = label_maps(found)
    assert len(tasks) == len(maps)
    for task in tasks:
        name = task["data"]["image"].removeprefix("/data/local-files/?d=").removesuffix(".png")
        for result in task["predictions"][0]["result"]:
            decoded = decode_brush(result["value"]["rle"]).reshape(SIZE, SIZE, 4)
            assert np.array_equal(decoded[..., 3] > 0, maps[name] == int(result["id"].removeprefix("object-")))


def test_label_studios_own_decoder_agrees():
    brush = pytest.importorskip("label_studio_sdk.converter.brush", reason="label-studio-sdk is not installed")
    mask = np.zeros((300, 400), dtype=bool)
    mask[100:, 50:300] = np.random.default_rng(0).random((200, 250)) < 0.9
    assert np.array_equal(brush.decode_rle(encode_brush(mask)).reshape(300, 400, 4)[..., 3] > 0, mask)


def test_supervision_reads_coco_and_yolo(found):
    supervision = pytest.importorskip("supervision", reason="supervision is not installed")
    photos = found / "yolo" / "images"
    read = supervision.DetectionDataset.from_yolo(
        str(photos), str(found / "yolo" / "labels"), str(found / "yolo" / "data.yaml"), force_masks=True
    )
    maps = label_maps(found)
    for path, _, objects in read:
        labels = maps[path.removeprefix(f"{photos}/").removesuffix(".jpg")]
        for number, mask in enumerate(objects.mask, 1):
            own = labels == number
            # Its polygons include their outlines, so a mask grows by a pixel at most.
            grown = np.pad(own, 1)
            near = np.any([grown[a : a + SIZE, b : b + SIZE] for a in range(3) for b in range(3)], axis=0)
            assert (mask[own]).all()
            # It draws the bridges between parts and holes as lines.
            assert len(outlines(own)) > 1 or not mask[~near].any()
