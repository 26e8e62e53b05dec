"""Any image as upright 8-bit RGB pixels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageOps

from cocanet.data.readers.image_files import decode_image, read_image, to_rgb
from cocanet.limits import check_image_size


@runtime_checkable
class Tensorlike(Protocol):
    """A torch tensor, without importing torch."""

    @property
    def ndim(self) -> int: ...
    @property
    def shape(self) -> Any: ...
    def detach(self) -> Any: ...
    def unbind(self, dim: int = 0) -> Any: ...


ImageLike = str | Path | bytes | Image.Image | np.ndarray | Tensorlike

_CHANNELS = (1, 3, 4)
_NARROWEST = 8
"""Pixels along the last axis of a batch of grey images; fewer are channels of an unknown kind."""
_ARRAYS = "expected arrays of shape (h, w), (h, w, 3) or (h, w, 4), or a batch of them"
_EXPECTED = "expected an image: a path, the bytes of a file, a PIL image, a NumPy array or a tensor"


class GivenImages(NamedTuple):
    """Images, and whether one image was given or several."""

    images: Sequence[ImageLike]
    single: bool


def separate(given: object) -> GivenImages:
    """One image, or the images of a list or of an array or tensor with a batch axis."""
    if isinstance(given, str | Path | bytes | Image.Image):
        return GivenImages([given], True)
    if isinstance(given, Tensorlike):
        return GivenImages([given], True) if given.ndim == 3 else GivenImages(list(_batch_of_tensors(given)), False)
    if isinstance(given, np.ndarray):
        return GivenImages([given], True) if _is_one_image(given) else GivenImages(list(given), False)
    if not isinstance(given, Iterable):
        raise ValueError(f"{_EXPECTED}, or several of them; got {type(given).__name__}")
    return GivenImages(list(given), False)


def read_pixels(image: ImageLike) -> UInt8[np.ndarray, "h w 3"]:
    """8-bit RGB pixels, upright by the orientation tag, with white behind transparent pixels."""
    if isinstance(image, str | Path):
        return read_image(Path(image), upright=True)
    if isinstance(image, bytes):
        return decode_image(image, "these bytes", upright=True)
    if isinstance(image, Image.Image):
        check_image_size(*image.size)
        return np.asarray(to_rgb(ImageOps.exif_transpose(image)))
    if isinstance(image, Tensorlike):
        return _pixels_of_tensor(image)
    if isinstance(image, np.ndarray):
        return _pixels_of_array(image)
    raise ValueError(f"{_EXPECTED}; got {type(image).__name__}")


def _pixels_of_tensor(image: Tensorlike) -> UInt8[np.ndarray, "h w 3"]:
    if image.ndim != 3 or image.shape[0] != 3:
        raise ValueError(f"expected a tensor of shape (3, height, width); got {tuple(image.shape)}")
    return _pixels_of_array(image.detach().permute(1, 2, 0).cpu().numpy())


def _pixels_of_array(image: np.ndarray) -> UInt8[np.ndarray, "h w 3"]:
    if image.ndim not in (2, 3) or (image.ndim == 3 and image.shape[2] not in _CHANNELS) or not image.size:
        raise ValueError(f"expected an array of shape (h, w), (h, w, 3) or (h, w, 4); got {image.shape}")
    pixels = _eight_bits(image)
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[..., 0]
    if pixels.ndim == 3 and pixels.shape[2] == 3:
        return np.ascontiguousarray(pixels)
    return np.asarray(to_rgb(Image.fromarray(np.ascontiguousarray(pixels))))


def _eight_bits(image: np.ndarray) -> UInt8[np.ndarray, "..."]:
    if image.dtype == np.uint8:
        return image
    if image.dtype == np.uint16:
        return (image >> 8).astype(np.uint8)
    if image.dtype == np.bool_:
        return image.astype(np.uint8) * np.uint8(255)
    if image.dtype.kind != "f":
        raise ValueError(f"expected an array of uint8, uint16, bool or floats in [0, 1]; got {image.dtype}")
    low, high = cast(Any, image.min()), cast(Any, image.max())
    if not (low >= 0 and high <= 1):
        raise ValueError(f"expected floats in [0, 1]; got values from {low:g} to {high:g}")
    return (image * 255).round().astype(np.uint8)


def _is_one_image(array: np.ndarray) -> bool:
    if array.ndim == 2 or (array.ndim == 3 and array.shape[2] in _CHANNELS):
        return True
    if array.ndim == 3 and array.shape[2] < _NARROWEST:
        raise ValueError(f"{_ARRAYS}; got {array.shape}, whose last axis is neither 1, 3 or 4 channels nor a width")
    if array.ndim == 3 and array.shape[0] not in _CHANNELS:
        return False
    if array.ndim == 4 and array.shape[3] in _CHANNELS:
        return False
    if array.ndim == 3:
        raise ValueError(
            f"an array of shape {array.shape} may be one image with its channels first or {array.shape[0]} grey ones; "
            "put the channels last, or give a list"
        )
    raise ValueError(f"{_ARRAYS}; got {array.shape}")


def _batch_of_tensors(tensor: Tensorlike) -> Iterable[Tensorlike]:
    if tensor.ndim != 4 or tensor.shape[1] != 3:
        expected = "(3, height, width) or (b, 3, height, width)"
        raise ValueError(f"expected a tensor of shape {expected}; got {tuple(tensor.shape)}")
    images: Iterable[Tensorlike] = tensor.unbind(0)
    return images
