"""How the page shows images: large ones reduced, segments and compactness in colours.

Predictions and labels stay in the image's own pixels; only what the page draws is reduced.
"""

from __future__ import annotations

from io import BytesIO

import numpy as np
from jaxtyping import Integer, UInt8
from matplotlib import colormaps
from PIL import Image

from cocanet.explain.figures.grids import COMPACTNESS_COLOURS

MAX_SIDE = 1024
"""Longer side of an image on the page."""
THUMBNAIL_SIDE = 96
SEGMENT_COLOURS = ("#5599ff", "#ff0000", "#aaff00", "#bb00aa", "#77ffff", "#5522ff", "#ffee88", "#ee8877")
"""Colours that differ clearly, also for the colour-blind, found by a search for the largest least difference.

Colours repeat, numbers do not.
"""
BACKGROUND_COLOUR = "#565b64"


def compactness_colours() -> UInt8[np.ndarray, "256 3"]:
    """Colours of compactness from 0 to 1, as in the figure."""
    return np.asarray(colormaps[COMPACTNESS_COLOURS](np.arange(256), bytes=True)[:, :3], dtype=np.uint8)


def display_size(size: tuple[int, int], max_side: int = MAX_SIDE) -> tuple[int, int]:
    """Height and width of an image on the page."""
    scale = min(1.0, max_side / max(size))
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def display_labels(labels: Integer[np.ndarray, "h w"]) -> Integer[np.ndarray, "height width"]:
    """Labels at the display size (nearest neighbour), in the smallest type that holds them."""
    size = display_size((labels.shape[0], labels.shape[1]))
    if size != labels.shape:
        rows, columns = (
            ((np.arange(side) + 0.5) * full / side).astype(np.int64)
            for side, full in zip(size, labels.shape, strict=True)
        )
        labels = labels[rows[:, None], columns]
    return labels.astype(np.uint16 if labels.max(initial=0) < 2**16 else np.int32)


def display_image(pixels: UInt8[np.ndarray, "h w 3"], max_side: int = MAX_SIDE) -> UInt8[np.ndarray, "height width 3"]:
    """The image at the display size."""
    height, width = display_size((pixels.shape[0], pixels.shape[1]), max_side)
    if (height, width) == pixels.shape[:2]:
        return pixels
    image = Image.fromarray(pixels)
    return np.asarray(image.resize((width, height), Image.Resampling.BILINEAR, reducing_gap=2.0))


def thumbnail(pixels: UInt8[np.ndarray, "h w 3"]) -> bytes:
    """A thumbnail: a PNG of a small image, a JPEG of a large one."""
    small, file = Image.fromarray(display_image(pixels, THUMBNAIL_SIDE)), BytesIO()
    if max(pixels.shape) <= THUMBNAIL_SIDE:
        small.save(file, "PNG", compress_level=1)
    else:
        small.save(file, "JPEG", quality=85)
    return file.getvalue()
