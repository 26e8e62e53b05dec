"""COCO, VOC and YOLO annotations, and masks beside photographs: written by hand, read as stores."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from cocanet.data.annotations.polygons import one_outline, outlines
from cocanet.data.readers import open_source
from cocanet.data.readers.input_files import DamagedFile

SIZE = 24


def scene(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """An image, and a label map with a ring, a part inside of it, and a square in two parts."""
    draw = np.random.default_rng(seed)
    labels = np.zeros((SIZE, SIZE), dtype=np.uint8)
    labels[2:12, 3:14], labels[4:10, 5:12], labels[6:8, 7:10] = 1, 0, 2
    labels[15:20, 2:8] = labels[16:22, 14:20] = 3
    return draw.integers(0, 256, (SIZE, SIZE, 3), dtype=np.uint8), np.roll(labels, seed, 1)


@pytest.fixture
def scenes(tmp_path):
    (tmp_path / "images").mkdir()
    found = [scene(seed) for seed in range(3)]
    for index, (image, _) in enumerate(found):
        Image.fromarray(image).save(tmp_path / "images" / f"{index}.png")
    return found


def check(source, scenes):
    """Every sample has the image and the labels, in any numbering."""
    assert (len(source), source.background_labels, source.has_labels) == (len(scenes), 1, True)
    for sample, (image, labels) in zip(source, scenes, strict=True):
        assert np.array_equal(sample.image, image)
        pairs = {(int(a), int(b)) for a, b in zip(sample.labels.flat, labels.flat, strict=True)}
        assert len(pairs) == len(np.unique(labels))
        assert (0, 0) in pairs


@pytest.mark.parametrize("kind", ["polygons", "rle", "compressed"])
def test_coco(tmp_path, scenes, kind):
    coco = pytest.importorskip("pycocotools.mask", reason="pycocotools is not installed")
    annotations = []
    for index, (_, labels) in enumerate(scenes):
        for label in (1, 2, 3):
            mask = labels == label
            packed = coco.encode(np.asfortranarray(mask.astype(np.uint8)))
            column = mask.T.ravel()
            edges = np.flatnonzero(np.diff(column, prepend=False, append=False))
            whole = np.concatenate(([0], edges, [column.size]))
            part = {
                "polygons": [each.ravel().tolist() for each in outlines(mask)][:1]
                if label == 2
                else {"size": [SIZE, SIZE], "counts": np.diff(whole).tolist()},
                "rle": {"size": [SIZE, SIZE], "counts": np.diff(whole).tolist()},
                "compressed": {"size": [SIZE, SIZE], "counts": packed["counts"].decode()},
            }[kind]
            annotations.append({"image_id": index + 7, "category_id": 1, "segmentation": part})
    content = {
        "images": [{"id": index + 7, "file_name": f"{index}.png"} for index in range(3)],
        "annotations": annotations,
        "categories": [{"id": 1, "name": "thing"}],
    }
    (tmp_path / "annotations").mkdir()
    (tmp_path / "annotations" / "all.json").write_text(json.dumps(content))
    check(open_source("coco", tmp_path, size=SIZE), scenes)
    check(open_source("coco", tmp_path / "annotations" / "all.json", size=SIZE, images=tmp_path / "images"), scenes)


def test_voc(tmp_path, scenes):
    (tmp_path / "images").rename(tmp_path / "JPEGImages")
    (tmp_path / "SegmentationObject").mkdir()
    (tmp_path / "ImageSets" / "Segmentation").mkdir(parents=True)
    (tmp_path / "ImageSets" / "Segmentation" / "train.txt").write_text("0\n2\n")
    for index, (_, labels) in enumerate(scenes):
        bordered = labels.copy()
        bordered[0] = 255
        picture = Image.fromarray(bordered, mode="P")
        picture.putpalette(np.random.default_rng(0).integers(0, 256, 768, dtype=np.uint8).tobytes())
        picture.save(tmp_path / "SegmentationObject" / f"{index}.png")
    check(open_source("voc", tmp_path, size=SIZE), scenes)
    check(open_source("voc", tmp_path, size=SIZE, split="train"), scenes[::2])


def test_yolo(tmp_path, scenes):
    (tmp_path / "labels").mkdir()
    for index, (_, labels) in enumerate(scenes):
        polygons = [one_outline(labels == label) / SIZE for label in (1, 2, 3)]
        lines = ["0 " + " ".join(map(str, polygon.ravel())) for polygon in polygons]
        (tmp_path / "labels" / f"{index}.txt").write_text("\n".join(lines))
    check(open_source("yolo", tmp_path, size=SIZE), scenes)
    (tmp_path / "labels" / "1.txt").write_text("0 0.1 0.2 0.3\n")
    with pytest.raises(DamagedFile, match="expected a class and at least three corners"):
        open_source("yolo", tmp_path, size=SIZE)[1]


@pytest.mark.parametrize("ending", ["_mask", "-mask", ".mask", ""])
@pytest.mark.parametrize("parallel", [True, False])
def test_masks_beside_photographs_and_in_a_parallel_tree(tmp_path, scenes, ending, parallel):
    if not (ending or parallel):
        pytest.skip("an image cannot have its mask's name")
    folder = tmp_path / "outlined" if parallel else tmp_path / "images"
    folder.mkdir(exist_ok=True)
    for index, (_, labels) in enumerate(scenes):
        Image.fromarray(labels).save(folder / f"{index}{ending}.png")
    masks = folder if parallel else None
    check(open_source("folder", tmp_path / "images", size=SIZE, masks=masks), scenes)


def test_masks_are_refused_as_photographs_with_the_command_that_was_meant(tmp_path, scenes):
    (tmp_path / "outlined").mkdir()
    for index, (_, labels) in enumerate(scenes):
        Image.fromarray(labels).save(tmp_path / "outlined" / f"{index}.png")
    meant = f"`coca import folder {tmp_path / 'images'} --masks {tmp_path / 'outlined'} --out STORE`"
    with pytest.raises(DamagedFile, match="holds masks, not photographs") as error:
        open_source("folder", tmp_path)
    assert meant in str(error.value)
    with pytest.raises(DamagedFile, match="holds masks, not photographs"):
        open_source("folder", tmp_path / "outlined")
    (tmp_path / "outlined" / "1.png").unlink()
    with pytest.raises(DamagedFile, match=r"expected one of 1\.png, 1_mask\.png"):
        open_source("folder", tmp_path / "images", masks=tmp_path / "outlined")


def test_stretch_and_pad_keep_the_whole_photograph(tmp_path):
    (tmp_path / "images").mkdir()
    (tmp_path / "masks").mkdir()
    image, labels = np.full((20, 40, 3), 90, dtype=np.uint8), np.zeros((20, 40), dtype=np.uint8)
    image[:, :8], labels[:, :8] = 200, 1
    image[:, 32:], labels[:, 32:] = 10, 2
    Image.fromarray(image).save(tmp_path / "images" / "a.png")
    Image.fromarray(labels).save(tmp_path / "masks" / "a.png")
    seen = {fit: open_source("folder", tmp_path, size=40, fit=fit)[0].labels for fit in ("stretch", "pad", "crop")}
    assert {fit: len(np.unique(found)) for fit, found in seen.items()} == {"stretch": 3, "pad": 3, "crop": 1}
    assert (seen["stretch"] == labels.repeat(2, 0)).all()
    assert (seen["pad"][10:30] == labels).all()


def test_people_on_a_street(samples):
    source = open_source("folder", samples / "street", size=64)
    assert len(source) == 85
    people = [int(source[index].labels.max()) for index in range(0, 85, 12)]
    assert min(people) >= 1
