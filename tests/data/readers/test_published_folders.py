"""CLEVRTex, ShapeStacks, Birds, Flowers: independent folders in the published layout, and real samples."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cocanet.data.readers import open_source
from cocanet.labels import UNLABELLED
from tests.data.readers.writers import (
    blocks,
    picture,
    reference_bilinear,
    reference_nearest,
    write_birds,
    write_clevrtex,
    write_flowers,
    write_shapestacks,
)


def scenes(count: int, height: int, width: int, entities: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    generator = np.random.default_rng(height)
    masks = [blocks(generator, height, width, entities) for _ in range(count)]
    return [picture(generator, mask) for mask in masks], masks


def assert_close(image: np.ndarray, expected: np.ndarray) -> None:
    assert np.abs(image.astype(int) - expected.astype(int)).max() <= 1


def test_clevrtex(tmp_path: Path) -> None:
    images, masks = scenes(20, 240, 320, 5)
    folder = write_clevrtex(tmp_path, images, masks)
    source = open_source("clevrtex", folder)
    assert len(source) == 20
    assert source.background_labels == 1
    for index in (0, 13):
        assert_close(source[index].image, reference_bilinear(images[index][24:216, 64:256], 128))
        expected = reference_nearest(masks[index][24:216, 64:256], 128)
        np.testing.assert_array_equal(source[index].labels, expected)
    for split, start, stop in (("test", 0, 2), ("val", 2, 4), ("train", 4, 20)):
        part = open_source("clevrtex", tmp_path, split=split)
        assert len(part) == stop - start
        np.testing.assert_array_equal(part[0].image, source[start].image)


def test_shapestacks(tmp_path: Path) -> None:
    images, masks = scenes(6, 224, 224, 7)
    names = ["ccs-easy-h=2-vcom=0-vpsf=0-v=10", "ccs-easy-h=2-vcom=0-vpsf=0-v=9", "blocks-h=3-v=1"]
    pairs = {name: slice(2 * row, 2 * row + 2) for row, name in enumerate(names)}
    root = write_shapestacks(
        tmp_path,
        {name: images[pair] for name, pair in pairs.items()},
        {name: masks[pair] for name, pair in pairs.items()},
    )
    assert len(open_source("shapestacks", root)) == 6
    for split, first in (("train", 0), ("val", 2), ("ccs_all/test", 4), ("default/train", 0)):
        source = open_source("shapestacks", root, split=split)
        assert len(source) == 2
        for index in range(2):
            crop = images[first + index][14:210, 14:210]
            assert_close(source[index].image, reference_bilinear(crop, 64))
            labels = reference_nearest(masks[first + index][14:210, 14:210], 64)
            np.testing.assert_array_equal(source[index].labels, labels)


def test_real_shapestacks_frames(samples: Path, tmp_path: Path) -> None:
    """Real frames in the published layout; their instance maps are not in the sample, so ours replace them."""
    frames = sorted((samples / "shapestacks").glob("rgb-*.png"))
    folder = tmp_path / "recordings" / "env_real"
    folder.mkdir(parents=True)
    mask = blocks(np.random.default_rng(0), 224, 224, 4)
    for frame in frames:
        shutil.copy(frame, folder)
        camera = frame.name.split("-")[5]
        stored = Image.fromarray(np.repeat(mask[..., None] * 32, 3, axis=2).astype(np.uint8))
        stored.save(folder / f"iseg-w=0-f=0-l=0-c=original-{camera}-mono-0.map", format="PNG")
    source = open_source("shapestacks", tmp_path)
    assert len(source) == len(frames) == 2
    for index, frame in enumerate(frames):
        pixels = np.asarray(Image.open(frame).convert("RGB"))
        assert_close(source[index].image, reference_bilinear(pixels[14:210, 14:210], 64))
        np.testing.assert_array_equal(source[index].labels, reference_nearest(mask[14:210, 14:210], 64))


def test_birds(tmp_path: Path) -> None:
    images, masks = scenes(3, 150, 200, 2)
    boxes = [(60.0, 40.0, 50.5, 60.0), (0.0, 0.0, 30.0, 90.0), (100.0, 50.0, 40.0, 20.0)]
    grey = [(masks[0] * 120 + 60).astype(np.uint8), None, masks[2] > 0]
    root = write_birds(tmp_path, images, grey, boxes, [0, 1, 0])
    crops = [(25, 115, 40, 130), (0, 112, 0, 82), (30, 90, 90, 150)]
    source = open_source("birds", root)
    for index, (top, bottom, left, right) in enumerate(crops):
        assert_close(source[index].image, reference_bilinear(images[index][top:bottom, left:right], 128))
        expected = np.full((128, 128), UNLABELLED, dtype=np.uint8)
        if index != 1:
            expected = reference_nearest((masks[index] > 0)[top:bottom, left:right], 128).astype(np.uint8)
        np.testing.assert_array_equal(source[index].labels, expected)
    assert source.recipe["segmented"] == 2
    train, val = (open_source("birds", root, split=split) for split in ("train", "val"))
    np.testing.assert_array_equal(train[1].image, source[2].image)
    assert (len(val), val.has_labels) == (1, False)
    assert not val[0].labels.any(), "a part without any mask is one without labels"
    with pytest.raises(ValueError, match="lists no image of this split"):
        open_source("birds", root, split="test")


def test_flowers(tmp_path: Path) -> None:
    images, masks = scenes(6, 150, 200, 2)
    numbers = range(10, 16)
    root = write_flowers(tmp_path, dict(zip(numbers, images, strict=True)), dict(zip(numbers, masks, strict=True)))
    source = open_source("flowers", root)
    assert len(source) == 6
    assert source.background_labels == 1
    for index in range(6):
        assert_close(source[index].image, reference_bilinear(images[index], 128))
        soft = reference_bilinear(masks[index] * 255, 128)
        sure = np.abs(soft.astype(int) - 127) > 1
        np.testing.assert_array_equal(source[index].labels[sure], (soft > 127)[sure])
    for split, remainder in (("test", 0), ("train", 1), ("val", 2)):
        part = open_source("flowers", root, split=split)
        chosen = [index for index, number in enumerate(numbers) if number % 3 == remainder]
        assert len(part) == len(chosen)
        for index, other in enumerate(chosen):
            np.testing.assert_array_equal(part[index].image, source[other].image)


def test_flowers_without_masks(tmp_path: Path) -> None:
    images, _ = scenes(2, 140, 130, 2)
    source = open_source("flowers", write_flowers(tmp_path, dict(enumerate(images)), {}))
    assert not source.has_labels
    assert source.background_labels == 0
    assert not source[0].labels.any()


def test_real_birds(samples: Path) -> None:
    source = open_source("birds", samples / "birds")
    assert len(source) == 10_662
    assert source.recipe["segmented"] == 8_949
    val = open_source("birds", samples / "birds", split="val")
    assert len(val) == 662
    assert val.recipe["segmented"] == 662
    covered = [val[index].labels.mean() for index in range(0, 662, 60)]
    assert all(0.02 < share < 0.95 for share in covered)
    assert all(source[index].image.shape == (128, 128, 3) for index in range(0, 10_662, 1000))


def test_real_flowers(samples: Path) -> None:
    source = open_source("flowers", samples / "flowers", split="train")
    assert len(source) == len(open_source("flowers", samples / "flowers")) == 6_149
    assert not source.has_labels
    numbers = [int(path.stem[6:]) for path in sorted((samples / "flowers" / "jpg").iterdir())]
    for index in range(0, 6_149, 600):
        number = numbers[index]
        pixels = np.asarray(Image.open(samples / "flowers" / "jpg" / f"image_{number:05d}.jpg"))
        np.testing.assert_array_equal(source[index].image, pixels)
    with pytest.raises(ValueError, match=r"image_\d+\.jpg: No such file"):
        open_source("flowers", samples / "flowers", split="test")[0]


def test_real_flowers17_through_folder(samples: Path) -> None:
    source = open_source("folder", samples / "flowers17")
    assert len(source) == 423
    for index in range(0, 423, 40):
        image = sorted((samples / "flowers17" / "images").iterdir())[index]
        mask = samples / "flowers17" / "masks" / f"{image.stem}.png"
        np.testing.assert_array_equal(source[index].image, np.asarray(Image.open(image)))
        np.testing.assert_array_equal(source[index].labels, np.asarray(Image.open(mask)))


def test_paths_that_climb_out_are_refused(tmp_path: Path) -> None:
    images, masks = scenes(1, 224, 224, 2)
    root = write_birds(tmp_path / "birds", images, [masks[0] > 0], [(50, 50, 60, 60)], [0])
    Image.fromarray(images[0]).save(tmp_path / "secret.png")
    for name in ("../../secret.png", "/etc/passwd", "a/../../../secret.png"):
        (root / "images.txt").write_text(f"1 {name}\n")
        with pytest.raises(ValueError, match="leads out of the folder, refused"):
            open_source("birds", root)
    (root / "images" / "link.png").symlink_to(tmp_path / "secret.png")
    (root / "images.txt").write_text("1 link.png\n")
    with pytest.raises(ValueError, match="leads out of the folder, refused"):
        open_source("birds", root)
    stacks = write_shapestacks(tmp_path / "stacks", {"a": images}, {"a": masks})
    (stacks / "splits" / "default" / "train.txt").write_text("../../../birds\n")
    with pytest.raises(ValueError, match=r"train\.txt: line 1: no scenario '\.\./\.\./\.\./birds'"):
        open_source("shapestacks", stacks, split="train")
    texture = write_clevrtex(tmp_path, images, masks)
    (texture / "0" / "CLEVRTEX_full_000000.png").unlink()
    (texture / "0" / "CLEVRTEX_full_000000.png").symlink_to(tmp_path / "secret.png")
    with pytest.raises(ValueError, match="leads out of the folder, refused"):
        open_source("clevrtex", texture)


def test_an_empty_folder_is_a_clear_error(tmp_path: Path) -> None:
    messages = {
        "clevrtex": "no image named like",
        "shapestacks": "no folder recordings",
        "birds": r"images\.txt: No such file",
        "flowers": "no folder jpg",
        "folder": "no images in this folder",
        "deepmind-tfrecord": "no .tfrecords file",
        "ocl-hdf5": "holds 0 .hdf5 files",
    }
    for format, message in messages.items():
        with pytest.raises(ValueError, match=message):
            open_source(format, tmp_path)
        with pytest.raises(ValueError, match=r"nowhere: [Nn]o such"):
            open_source(format, tmp_path / "nowhere")
    with pytest.raises(ValueError, match="there are deepmind-tfrecord"):
        open_source("png", tmp_path)


def test_options_that_do_not_apply(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="only the formats folder and parquet"):
        open_source("birds", tmp_path, masks=tmp_path)
    with pytest.raises(ValueError, match="only folder, coco, voc, yolo, parquet may leave images out"):
        open_source("birds", tmp_path, skip_damaged=True)
    with pytest.raises(ValueError, match="has no published splits"):
        open_source("folder", tmp_path, split="train")
    with pytest.raises(ValueError, match="size 0: expected"):
        open_source("folder", tmp_path, size=0)
