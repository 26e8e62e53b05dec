"""A folder of the user's own images, in every shape they come in."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cocanet.data.readers import open_source
from tests.data.readers.writers import reference_nearest, save_palette


def gradient(height: int, width: int) -> np.ndarray:
    rows, columns = np.mgrid[:height, :width]
    return np.stack([rows % 256, columns % 256, (rows + columns) % 256], axis=2).astype(np.uint8)


def test_order_nesting_and_other_files(tmp_path: Path) -> None:
    names = ["img10.png", "img2.png", "b/1.PNG", "a/z.bmp", "img1.webp"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.fromarray(gradient(16, 16)).save(tmp_path / name, lossless=True)
    for name in ("notes.txt", ".hidden.png", "Thumbs.db"):
        (tmp_path / name).write_text("nothing")
    source = open_source("folder", tmp_path, size=16)
    assert [str(name) for name in source._images] == [
        "a/z.bmp",
        "b/1.PNG",
        "img1.webp",
        "img2.png",
        "img10.png",
    ]  # type: ignore[attr-defined]
    for index in range(5):
        np.testing.assert_array_equal(source[index].image, gradient(16, 16))
    assert not source.has_labels


def test_centre_crop(tmp_path: Path) -> None:
    for height, width in ((40, 64), (64, 40), (41, 40)):
        pixels = gradient(height, width)
        Image.fromarray(pixels).save(tmp_path / "a.png")
        top, left = round((height - 40) / 2), round((width - 40) / 2)
        sample = open_source("folder", tmp_path, size=40, fit="crop")[0]
        np.testing.assert_array_equal(sample.image, pixels[top : top + 40, left : left + 40])


def test_default_size(tmp_path: Path) -> None:
    for name, shape in (("a.png", (300, 200)), ("b.png", (5, 9)), ("c.png", (1, 1))):
        Image.fromarray(gradient(*shape)).save(tmp_path / name)
    source = open_source("folder", tmp_path)
    assert {source[index].image.shape for index in range(3)} == {(128, 128, 3)}


def test_modes(tmp_path: Path) -> None:
    ramp = np.arange(256, dtype=np.uint8).reshape(16, 16)
    rgb = np.repeat(ramp[..., None], 3, axis=2)
    alpha = np.where(np.arange(16) < 8, 0, 255).astype(np.uint8)[None].repeat(16, axis=0)
    on_white = np.where(alpha[..., None] == 0, 255, rgb)
    pictures = {
        "grey.png": (Image.fromarray(ramp), rgb),
        "grey16.png": (Image.fromarray(ramp.astype(np.uint16) * 257), rgb),
        "grey16.tif": (Image.fromarray(ramp.astype(np.uint16) * 257), rgb),
        "float.tif": (Image.fromarray(ramp.astype(np.float32) / 255), rgb),
        "alpha.png": (Image.fromarray(np.dstack([rgb, alpha])), on_white),
        "grey-alpha.png": (Image.fromarray(np.dstack([ramp, alpha])), on_white),
        "palette.png": (Image.fromarray(rgb).quantize(256), rgb),
        "palette.gif": (Image.fromarray(rgb).quantize(256), rgb),
        "binary.png": (Image.fromarray(ramp > 99), np.where(rgb > 99, 255, 0)),
        "cmyk.tif": (Image.fromarray(rgb).convert("CMYK"), rgb),
    }
    for name, (picture, _) in pictures.items():
        picture.save(tmp_path / name)
    source = open_source("folder", tmp_path, size=16)
    names = [str(name) for name in source._images]  # type: ignore[attr-defined]
    assert sorted(names) == sorted(pictures)
    for index, name in enumerate(names):
        np.testing.assert_array_equal(source[index].image, pictures[name][1], err_msg=name)


def test_transparent_palette(tmp_path: Path) -> None:
    indexed = Image.frombytes("P", (16, 16), bytes([0, 1] * 128))
    indexed.putpalette([10, 20, 30, 40, 50, 60])
    indexed.save(tmp_path / "a.png", transparency=0)
    Image.fromarray(gradient(16, 16)).save(tmp_path / "b.png")  # with it, the first is not taken for a mask
    image = open_source("folder", tmp_path, size=16)[0].image
    assert np.unique(image[:, ::2]) == 255
    np.testing.assert_array_equal(image[0, 1], [40, 50, 60])


def test_orientation_tag(tmp_path: Path) -> None:
    """The pixels are stored rotated as the tag says; the image must come out upright, like its mask."""
    upright = gradient(24, 24)
    mask = (upright[..., 0] > 10).astype(np.uint8) * 255
    stored = [
        upright,
        upright[:, ::-1],
        upright[::-1, ::-1],
        upright[::-1],
        upright.swapaxes(0, 1),
        np.rot90(upright, 1),
        np.rot90(upright, 2).swapaxes(0, 1),
        np.rot90(upright, -1),
    ]
    (tmp_path / "images").mkdir()
    (tmp_path / "masks").mkdir()
    for orientation, pixels in enumerate(stored, start=1):
        exif = Image.Exif()
        exif[0x0112] = orientation
        Image.fromarray(np.ascontiguousarray(pixels)).save(tmp_path / "images" / f"{orientation}.png", exif=exif)
        Image.fromarray(mask).save(tmp_path / "masks" / f"{orientation}.png")
    source = open_source("folder", tmp_path, size=24)
    for index in range(8):
        np.testing.assert_array_equal(source[index].image, upright)
        np.testing.assert_array_equal(source[index].labels, mask // 255)


def test_masks_of_every_kind(tmp_path: Path) -> None:
    labels = np.repeat(np.repeat(np.arange(4, dtype=np.uint8).reshape(2, 2), 20, axis=0), 20, axis=1)
    colours = np.array([[0, 0, 0], [0, 0, 200], [0, 90, 0], [255, 255, 255]], dtype=np.uint8)
    (tmp_path / "in" / "sub").mkdir(parents=True)
    (tmp_path / "out" / "sub").mkdir(parents=True)
    Image.fromarray(labels * 80).save(tmp_path / "out" / "grey.png")
    Image.fromarray(labels.astype(np.uint16) * 9000).save(tmp_path / "out" / "deep.png")
    Image.fromarray(colours[labels]).save(tmp_path / "out" / "sub" / "colour.png")
    Image.fromarray(np.dstack([colours[labels], (labels > 0) * np.uint8(255)])).save(tmp_path / "out" / "clear.png")
    save_palette(tmp_path / "out" / "palette.png", labels)
    for name in ("grey.jpg", "deep.jpg", "sub/colour.jpg", "sub/clear.jpg", "palette.jpg"):
        Image.fromarray(gradient(40, 40)).save(tmp_path / "in" / name)
    source = open_source("folder", tmp_path / "in", masks=tmp_path / "out", size=30)
    assert source.background_labels == 1
    for index in range(5):
        np.testing.assert_array_equal(source[index].labels, reference_nearest(labels, 30))


def test_masks_inside_the_folder_are_no_images(tmp_path: Path) -> None:
    (tmp_path / "labels").mkdir()
    Image.fromarray(gradient(8, 8)).save(tmp_path / "a.png")
    Image.fromarray(np.ones((8, 8), np.uint8)).save(tmp_path / "labels" / "a.png")
    source = open_source("folder", tmp_path, masks=tmp_path / "labels", size=8)
    assert len(source) == 1
    assert np.unique(source[0].labels) == 1


def test_mistakes_with_masks(tmp_path: Path) -> None:
    images, masks = tmp_path / "in", tmp_path / "out"
    images.mkdir()
    masks.mkdir()
    Image.fromarray(gradient(32, 32)).save(images / "a.png")
    with pytest.raises(ValueError, match=r"1 of 1 images have no mask here, the first is a\.png"):
        open_source("folder", images, masks=masks)
    Image.fromarray(np.zeros((32, 30), np.uint8)).save(masks / "a.png")
    with pytest.raises(ValueError, match=r"a\.png: the mask has 30×32 pixels, its image 32×32"):
        open_source("folder", images, masks=masks)[0]
    Image.fromarray(np.arange(1024, dtype=np.uint16).reshape(32, 32)).save(masks / "a.png")
    with pytest.raises(ValueError, match=r"a\.png: 1024 different values; a mask has one for each object"):
        open_source("folder", images, masks=masks, size=32)[0]
    Image.fromarray(np.zeros((32, 32), np.uint8)).save(masks / "a.bmp")
    with pytest.raises(ValueError, match=r"a\.png has several masks"):
        open_source("folder", images, masks=masks)
    (masks / "a.png").unlink()
    (masks / "a.bmp").rename(masks / "b.bmp")
    Image.fromarray(np.zeros((32, 32), np.uint8)).save(masks / "a.jpg")
    with pytest.raises(ValueError, match="JPEG blurs the values of a mask"):
        open_source("folder", images, masks=masks)[0]


def test_links_and_pipes(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "real").mkdir(parents=True)
    Image.fromarray(gradient(8, 8)).save(root / "real" / "a.png")
    (root / "again").symlink_to(root / "real")
    (root / "same.png").symlink_to(root / "real" / "a.png")
    (tmp_path / "door").symlink_to(root)
    assert len(open_source("folder", tmp_path / "door")) == 2
    os.mkfifo(root / "pipe.png")
    with pytest.raises(ValueError, match=r"pipe\.png: not a regular file"):
        open_source("folder", root)[0]
    (root / "pipe.png").unlink()
    (root / "out.png").symlink_to("/etc/hostname")
    with pytest.raises(ValueError, match=r"'out\.png': leads out of the folder, refused"):
        open_source("folder", root)
    (root / "out.png").unlink()
    (root / "up").symlink_to(tmp_path)
    with pytest.raises(ValueError, match="'up': leads out of the folder, refused"):
        open_source("folder", root)


def test_an_image_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.fromarray(gradient(64, 64)).save(tmp_path / "a.png")
    monkeypatch.setattr("cocanet.limits.MAX_PIXELS", 64 * 64 - 1)
    with pytest.raises(ValueError, match=r"a\.png: 64×64 pixels; expected at most 4,095"):
        open_source("folder", tmp_path)[0]
    monkeypatch.setattr("cocanet.limits.MAX_PIXELS", 64 * 64)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)  # Pillow's own limit is an error above twice of it
    with pytest.raises(ValueError, match=r"a\.png: .*exceeds limit"):
        open_source("folder", tmp_path)[0]


def test_a_changed_pixel_byte_of_a_png_is_found(tmp_path: Path) -> None:
    Image.fromarray(gradient(64, 64)).save(tmp_path / "a.png", compress_level=0)
    data = bytearray((tmp_path / "a.png").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "a.png").write_bytes(data)
    with pytest.raises(ValueError, match=r"a\.png: the checksum of the PNG chunk b'IDAT' at byte \d+ is wrong"):
        open_source("folder", tmp_path)[0]


def test_damaged_images_are_left_out_on_demand(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        Image.fromarray(gradient(16, 16)).save(tmp_path / f"{name}.png")
    whole = open_source("folder", tmp_path, size=16, skip_damaged=True)
    assert "left_out" not in whole.recipe
    (tmp_path / "b.png").write_bytes((tmp_path / "b.png").read_bytes()[:60])
    source = open_source("folder", tmp_path, size=16, skip_damaged=True)
    assert len(source) == source.recipe["count"] == 2
    np.testing.assert_array_equal(source[1].image, gradient(16, 16))
    (reason,) = source.recipe["left_out"]
    assert str(tmp_path / "b.png") in reason
    for name in ("a", "c"):
        (tmp_path / f"{name}.png").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"none of the 3 images can be read; the first: .*a\.png: not an image"):
        open_source("folder", tmp_path, skip_damaged=True)


def test_real_clevr_images(samples: Path) -> None:
    source = open_source("folder", samples / "clevr_images")
    assert len(source) == 5
    assert source[0].image.std() > 10


def test_another_folder_of_the_same_name_and_count_is_not_taken_for_the_first(tmp_path: Path) -> None:
    recipes = []
    for number, content in enumerate((gradient(16, 16), gradient(24, 24), gradient(16, 16))):
        folder = tmp_path / str(number) / "photos"
        folder.mkdir(parents=True)
        Image.fromarray(content).save(folder / "a.png")
        recipes.append(open_source("folder", folder, size=16).recipe)
    assert recipes[0] == recipes[2] != recipes[1]
