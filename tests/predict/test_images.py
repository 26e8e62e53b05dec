"""Every kind of image becomes the same 8-bit pixels."""

import numpy as np
import pytest
import torch
from PIL import Image

from cocanet.predict.images import read_pixels, separate

RAMP = np.arange(96, dtype=np.uint8).reshape(8, 12) * 2
RGB = np.stack([RAMP, RAMP[::-1], RAMP[:, ::-1]], 2)
GREY = np.repeat(RAMP[..., None], 3, 2)
ALPHA = np.where(np.arange(12) < 6, 0, 255).astype(np.uint8)[None].repeat(8, 0)
ON_WHITE = np.where(ALPHA[..., None] == 0, 255, RGB)


def test_kinds_of_image():
    for image, expected in (
        (RGB, RGB),
        (RGB[:, ::-1][:, ::-1], RGB),
        (np.asfortranarray(RGB), RGB),
        (RAMP, GREY),
        (RAMP[..., None], GREY),
        (RGB / 255, RGB),
        ((RGB / 255).astype(np.float32), RGB),
        ((RGB / 255).astype(np.float16), RGB),
        (RGB.astype(np.uint16) * 257, RGB),
        (RAMP.astype(np.uint16) * 257, GREY),
        (RAMP > 90, np.where(GREY > 90, 255, 0)),
        (np.dstack([RGB, ALPHA]), ON_WHITE),
        (torch.from_numpy(RGB / 255).permute(2, 0, 1), RGB),
        (torch.from_numpy(RGB / 255).permute(2, 0, 1).float().requires_grad_(), RGB),
        (torch.from_numpy(RGB).permute(2, 0, 1), RGB),
        (Image.fromarray(RGB), RGB),
        (Image.fromarray(np.dstack([RGB, ALPHA])), ON_WHITE),
        (Image.fromarray(RAMP), GREY),
        (Image.fromarray(RAMP.astype(np.uint16) * 257), GREY),
        (Image.fromarray(RGB).convert("CMYK"), RGB),
    ):
        one = separate(image)
        assert one.single
        pixels = read_pixels(one.images[0])
        assert pixels.dtype == np.uint8
        np.testing.assert_array_equal(pixels, expected)


def test_files(tmp_path):
    Image.fromarray(RGB).save(tmp_path / "a.png")
    for path in (tmp_path / "a.png", str(tmp_path / "a.png")):
        np.testing.assert_array_equal(read_pixels(path), RGB)


def test_several():
    for images in (
        [RGB, RGB, RGB],
        (RGB for _ in range(3)),
        np.stack([RGB] * 3),
        torch.from_numpy(np.stack([RGB] * 3) / 255).permute(0, 3, 1, 2),
        [Image.fromarray(RGB), RGB, torch.from_numpy(RGB).permute(2, 0, 1)],
    ):
        many = separate(images)
        assert not many.single
        assert len(many.images) == 3
        for image in many.images:
            np.testing.assert_array_equal(read_pixels(image), RGB)


def test_a_batch_of_one_is_still_a_batch():
    assert not separate(RGB[None]).single
    assert not separate(torch.zeros(1, 3, 4, 5)).single
    assert not separate([RGB]).single


def test_a_batch_of_grey_images():
    many = separate(np.stack([RAMP] * 5))
    assert len(many.images) == 5
    np.testing.assert_array_equal(read_pixels(many.images[4]), GREY)


def test_mistakes():
    for image, message in (
        (RGB.astype(np.float32), r"floats in \[0, 1\]; got values from 0 to 190"),
        (np.full((4, 4), np.nan), "got values from nan to nan"),
        (RGB.astype(np.int64), "got int64"),
        (RGB.transpose(2, 0, 1), r"shape \(3, 8, 12\) may be one image with its channels first or 3 grey ones"),
        (np.zeros((2, 2, 2, 2)), r"got \(2, 2, 2, 2\)"),
        (np.zeros((6, 7, 2)), r"got \(6, 7, 2\), whose last axis is neither 1, 3 or 4 channels nor a width"),
        (np.zeros(5), r"got \(5,\)"),
        (np.zeros((0, 4)), r"got \(0, 4\)"),
        (torch.zeros(4, 8, 12), r"got \(4, 8, 12\)"),
        (torch.zeros(8, 12), r"got \(8, 12\)"),
        (5, "expected an image: a path, the bytes of a file, .* or a tensor, or several of them; got int"),
        ([3.0], "float|3.0"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            [read_pixels(one) for one in separate(image).images]


@pytest.mark.parametrize(
    ("limit", "value", "message"),
    [
        ("MAX_PIXELS", 95, "12×8 pixels; expected at most 95"),
        ("MAX_SIDE", 11, "12×8 pixels; expected at most 11 along a side"),
        ("MAX_DECODED_BYTES", 383, "12×8 pixels take 384 bytes; expected at most 383"),
    ],
)
def test_images_beyond_a_limit_are_refused_undecoded(tmp_path, monkeypatch, limit, value, message):
    Image.fromarray(RGB).save(tmp_path / "a.png")
    monkeypatch.setattr(f"cocanet.limits.{limit}", value + 1)
    assert read_pixels(tmp_path / "a.png").shape == RGB.shape
    monkeypatch.setattr(f"cocanet.limits.{limit}", value)
    monkeypatch.setattr(Image.Image, "load", lambda self: pytest.fail("decoded"))
    for image in (tmp_path / "a.png", (tmp_path / "a.png").read_bytes(), Image.open(tmp_path / "a.png")):
        with pytest.raises(ValueError, match=message):
            read_pixels(image)
