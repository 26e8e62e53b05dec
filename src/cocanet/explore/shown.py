"""Large images are shown smaller than they are; what is computed and saved is in their own pixels."""

from __future__ import annotations

from io import BytesIO

import numpy as np
from jaxtyping import Integer, UInt8
from PIL import Image

MOST = 1024
"""Longer side of a picture that is shown."""
THUMBNAIL = 96


def shown_size(size: tuple[int, int], most: int = MOST) -> tuple[int, int]:
    """Height and width at which an image is shown."""
    scale = min(1.0, most / max(size))
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def shown_labels(labels: Integer[np.ndarray, "h w"]) -> Integer[np.ndarray, "height width"]:
    """The label at the middle of every pixel that is shown, in as few bytes as hold it."""
    wanted = shown_size((labels.shape[0], labels.shape[1]))
    if wanted != labels.shape:
        rows, columns = (
            ((np.arange(side) + 0.5) * have / side).astype(np.int64)
            for side, have in zip(wanted, labels.shape, strict=True)
        )
        labels = labels[rows[:, None], columns]
    return labels.astype(np.uint16 if labels.max(initial=0) < 2**16 else np.int32)


def shown_picture(pixels: UInt8[np.ndarray, "h w 3"], most: int = MOST) -> UInt8[np.ndarray, "height width 3"]:
    """The image, reduced where it is too large."""
    height, width = shown_size((pixels.shape[0], pixels.shape[1]), most)
    if (height, width) == pixels.shape[:2]:
        return pixels
    picture = Image.fromarray(pixels)
    return np.asarray(picture.resize((width, height), Image.Resampling.BILINEAR, reducing_gap=2.0))


def thumbnail(pixels: UInt8[np.ndarray, "h w 3"]) -> bytes:
    """A small picture of an image, as a PNG or, where it was large, a JPEG."""
    small, file = Image.fromarray(shown_picture(pixels, THUMBNAIL)), BytesIO()
    if max(pixels.shape) <= THUMBNAIL:
        small.save(file, "PNG", compress_level=1)
    else:
        small.save(file, "JPEG", quality=85)
    return file.getvalue()
