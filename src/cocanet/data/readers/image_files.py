"""Image files: decoding that refuses damaged and dangerous files, crops and resizes.

Images are resized bilinearly with Pillow (which widens the filter when it shrinks), label maps to the nearest pixel.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Mapping
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from jaxtyping import Integer, UInt8
from PIL import Image, ImageOps, UnidentifiedImageError

from cocanet.data.readers.input_files import naming, read_bytes
from cocanet.data.sample import Sample
from cocanet.limits import check_image_size

PNG = b"\x89PNG\r\n\x1a\n"
# Pillow passes these to other programs or only reads their headers.
NOT_DECODED = {"EPS", "WMF", "GRIB", "HDF5", "BUFR", "MPEG"}
WHITE = (255, 255, 255, 255)


class Box(NamedTuple):
    """A crop in pixels; bottom and right are exclusive."""

    top: int
    left: int
    bottom: int
    right: int


def centre_box(shape: tuple[int, ...], side: int) -> Box:
    """A centred square; half a pixel rounds to even, as in torchvision (35 to 32 starts at 2)."""
    height, width = shape[:2]
    if side > min(height, width):
        raise ValueError(f"an image of {width}×{height} pixels is smaller than the crop of {side}")
    top, left = round((height - side) / 2), round((width - side) / 2)
    return Box(top, left, top + side, left + side)


def readable_suffixes() -> frozenset[str]:
    """The file name endings, in lower case, of every format that Pillow decodes itself."""
    formats = set(_formats())
    return frozenset(suffix for suffix, name in Image.registered_extensions().items() if name in formats)


def read_picture(path: Path, *, upright: bool = False) -> Image.Image:
    """The first frame of an image file, decoded; `upright` follows the camera's orientation tag."""
    return decode_picture(read_bytes(path), path, upright=upright)


def decode_picture(data: bytes, where: str | Path, *, upright: bool = False) -> Image.Image:
    """The same from a file's bytes. Errors begin with `where`; images beyond the limits are not decoded."""
    with naming(where), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if data.startswith(PNG):
            _check_png(data)
        if not data:
            raise ValueError("the file is empty")
        try:
            picture: Image.Image = Image.open(BytesIO(data), formats=_formats())
        except UnidentifiedImageError:
            # Pillow's own message names a buffer that the user does not know.
            raise ValueError("not an image") from None
        check_image_size(*picture.size)
        picture.load()
        if upright:
            ImageOps.exif_transpose(picture, in_place=True)
        return picture


def read_image(path: Path, *, upright: bool = False) -> UInt8[np.ndarray, "h w 3"]:
    """An image file as 8-bit RGB, whatever it was (see `to_rgb`)."""
    return decode_image(read_bytes(path), path, upright=upright)


def decode_image(data: bytes, where: str | Path, *, upright: bool = False) -> UInt8[np.ndarray, "h w 3"]:
    """The same of a file's bytes."""
    picture = decode_picture(data, where, upright=upright)
    with naming(where):
        return np.asarray(to_rgb(picture))


def to_rgb(picture: Image.Image) -> Image.Image:
    """8-bit RGB: transparency on white, 16-bit grey by its high byte, floats of 0…1 or 0…255 as 0…255."""
    if picture.mode.startswith("I") or picture.mode == "F":
        return Image.fromarray(_eight_bits(np.asarray(picture))).convert("RGB")
    if picture.has_transparency_data:
        picture = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", picture.size, WHITE), picture)
    return picture if picture.mode == "RGB" else picture.convert("RGB")


def resize_image(image: UInt8[np.ndarray, "h w 3"], size: int) -> UInt8[np.ndarray, "size size 3"]:
    if image.shape[:2] == (size, size):
        return np.array(image)
    return np.asarray(Image.fromarray(image).resize((size, size), Image.Resampling.BILINEAR))


def resize_labels(labels: UInt8[np.ndarray, "h w"], size: int) -> UInt8[np.ndarray, "size size"]:
    if labels.shape == (size, size):
        return np.array(labels)
    return np.asarray(Image.fromarray(labels).resize((size, size), Image.Resampling.NEAREST))


def crop_sample(
    image: UInt8[np.ndarray, "h w 3"],
    labels: UInt8[np.ndarray, "h w"],
    box: Box,
    size: int,
    factors: Mapping[str, np.ndarray] | None = None,
) -> Sample:
    """Crop image and labels to the box and resize both to `size`."""
    rows, columns = slice(box.top, box.bottom), slice(box.left, box.right)
    image, labels = np.ascontiguousarray(image[rows, columns]), np.ascontiguousarray(labels[rows, columns])
    return Sample(resize_image(image, size), resize_labels(labels, size), factors or {})


def segments(picture: Image.Image) -> Integer[np.ndarray, "h w"]:
    """One number for each value or colour of a mask, 0 for black, transparent and palette entry 0."""
    if picture.mode in ("P", "L", "1") or picture.mode.startswith("I"):
        return np.asarray(picture).astype(np.int64)
    rgba = np.asarray(picture.convert("RGBA")).astype(np.int64)
    colours = (rgba[..., 0] << 16) | (rgba[..., 1] << 8) | rgba[..., 2]
    return np.where(rgba[..., 3] > 0, colours, 0)


def same_size(image: np.ndarray, mask: np.ndarray) -> None:
    if image.shape[:2] != mask.shape[:2]:
        (high, wide), (mask_high, mask_wide) = image.shape[:2], mask.shape[:2]
        raise ValueError(f"the mask has {mask_wide}×{mask_high} pixels, its image {wide}×{high}")


@cache
def _formats() -> tuple[str, ...]:
    Image.init()
    return tuple(name for name in Image.ID if name not in NOT_DECODED)


def _check_png(data: bytes) -> None:
    """Compare every chunk with its checksum; Pillow does not do so for the pixels."""
    at = len(PNG)
    while True:
        length = int.from_bytes(data[at : at + 4], "big")
        kind, end = data[at + 4 : at + 8], at + 8 + length
        if len(data) < end + 4:
            raise ValueError("the PNG file is cut off")
        if zlib.crc32(data[at + 4 : end]) != int.from_bytes(data[end : end + 4], "big"):
            raise ValueError(f"the checksum of the PNG chunk {kind!r} at byte {at} is wrong")
        if kind == b"IEND":
            return
        at = end + 4


def _eight_bits(values: np.ndarray) -> UInt8[np.ndarray, "h w"]:
    low, high = cast(Any, values.min()), cast(Any, values.max())
    if values.dtype.kind == "f":
        if not np.isfinite(values).all():
            raise ValueError("a float image holds values that are not finite")
        return np.clip(values * (255.0 if high <= 1 else 1.0), 0, 255).round().astype(np.uint8)
    if low < 0 or high > 65535:
        raise ValueError(f"integers from {low} to {high}; images of 8 or 16 bits are read")
    return (values.astype(np.int64) >> 8).astype(np.uint8)
