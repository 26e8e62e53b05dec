"""Overlays of segmented images with contours, and contact sheets."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Integer, UInt8
from PIL import Image, ImageDraw, ImageFont

from cocanet.data.summary import mask_colours

LEAST, MOST = 384, 1600
"""Longer side of an overlay: small images are enlarged to about the first, large images reduced to the second."""

_TINT, _DIM = 0.6, 0.85
_TILE, _SEAM, _GAP, _MARGIN, _CAPTION, _HEADER = 150, 3, 16, 20, 22, 44
_PAPER, _INK, _PALE = (250, 250, 248), (40, 40, 44), (120, 120, 124)


def draw_overlay(
    image: UInt8[np.ndarray, "h w 3"], labels: Integer[np.ndarray, "h w"], *, least: int = LEAST, most: int = MOST
) -> Image.Image:
    """The image in grey, with its objects tinted and outlined.

    A small image is enlarged by an integer factor so that its pixels stay visible; a large image is reduced.
    """
    image, labels = _reduced(image, labels, most)
    colours = label_colours(int(labels.max()) + 1)
    factor = -(-least // max(labels.shape))
    picture, labels = (_enlarged(x, factor) for x in (_tinted(image, labels, colours), labels))
    colours[0] = _INK
    line = contours(labels, max(1, round(max(labels.shape) / 300)))
    picture[line] = colours[labels[line]]
    return Image.fromarray(picture)


def _tinted(
    image: UInt8[np.ndarray, "h w 3"], labels: Integer[np.ndarray, "h w"], colours: UInt8[np.ndarray, "s 3"]
) -> UInt8[np.ndarray, "h w 3"]:
    """The image in grey, since its colours would mix with those of the segments; weights are in 1/256."""
    parts = np.full((len(colours), 1), round(256 * _TINT), dtype=np.uint16)
    keep, parts[0] = 256 - parts[:, 0], 0
    keep[0] = round(256 * _DIM)
    grey = np.asarray(Image.fromarray(image).convert("L"))
    mixed = (grey * keep[labels])[..., None] + (colours * parts)[labels]
    return np.asarray(mixed >> 8, dtype=np.uint8)


def label_colours(count: int) -> UInt8[np.ndarray, "count 3"]:
    """A colour for each label, grey for label 0; colours repeat after 255 labels."""
    return np.concatenate((_palette()[:1], _palette()[1 + np.arange(max(1, count) - 1) % 255]))


@cache
def _palette() -> UInt8[np.ndarray, "256 3"]:
    return mask_colours(1)


def contours(labels: Integer[np.ndarray, "h w"], thickness: int) -> Bool[np.ndarray, "h w"]:
    """Pixels with a different label at most `thickness` pixels away in their row or column."""
    found = np.zeros(labels.shape, dtype=bool)
    for step in range(1, thickness + 1):
        down, right = labels[step:] != labels[:-step], labels[:, step:] != labels[:, :-step]
        found[step:] |= down
        found[:-step] |= down
        found[:, step:] |= right
        found[:, :-step] |= right
    return found


def _reduced(
    image: UInt8[np.ndarray, "h w 3"], labels: Integer[np.ndarray, "h w"], most: int
) -> tuple[np.ndarray, np.ndarray]:
    """Image and labels with at most `most` pixels along the longer side."""
    if max(labels.shape) <= most:
        return image, labels
    height, width = (max(1, round(side * most / max(labels.shape))) for side in labels.shape)
    picture = Image.fromarray(image).resize((width, height), Image.Resampling.BILINEAR, reducing_gap=2.0)
    rows, columns = (
        ((np.arange(wanted) + 0.5) * have / wanted).astype(np.int64)
        for wanted, have in zip((height, width), labels.shape, strict=True)
    )
    return np.asarray(picture), labels[rows[:, None], columns]


def _enlarged(pixels: np.ndarray, factor: int) -> np.ndarray:
    return pixels.repeat(factor, 0).repeat(factor, 1) if factor > 1 else pixels


class Tile(NamedTuple):
    """One entry of a contact sheet."""

    name: str
    image: Image.Image
    overlay: Image.Image


def make_tile(name: str, image: UInt8[np.ndarray, "h w 3"], overlay: Image.Image) -> Tile:
    """Thumbnails of an image and its overlay."""
    height, width = image.shape[:2]
    scale = _TILE / max(height, width)
    size = max(1, round(width * scale)), max(1, round(height * scale))
    enlarged = Image.Resampling.NEAREST if scale > 1 else Image.Resampling.BILINEAR
    small = Image.fromarray(image).resize(size, enlarged, reducing_gap=2.0 if scale < 1 else None)
    return Tile(name, small, overlay.resize(size, Image.Resampling.BOX))


def draw_contact_sheet(tiles: list[Tile], title: str) -> Image.Image:
    """Images, each with its overlay on the right and its name below."""
    pair = 2 * _TILE + _SEAM
    tallest = max(tile.image.height for tile in tiles)
    columns = max(1, min(len(tiles), round(float(np.sqrt(1.5 * len(tiles) * (tallest + _CAPTION + _GAP) / pair)))))
    rows = [tiles[start : start + columns] for start in range(0, len(tiles), columns)]
    heights = [max(tile.image.height for tile in row) for row in rows]
    width = 2 * _MARGIN + columns * (pair + _GAP) - _GAP
    sheet = Image.new("RGB", (width, _HEADER + sum(heights) + len(rows) * (_CAPTION + _GAP) - _GAP + _MARGIN), _PAPER)
    draw = ImageDraw.Draw(sheet)
    _write(draw, (_MARGIN, _HEADER // 2), title, 15, width - 2 * _MARGIN, _INK, "lm")
    top = _HEADER
    for row, height in zip(rows, heights, strict=True):
        for column, tile in enumerate(row):
            left = _MARGIN + column * (pair + _GAP)
            down = top + (height - tile.image.height) // 2
            sheet.paste(tile.image, (left + _TILE - tile.image.width, down))
            sheet.paste(tile.overlay, (left + _TILE + _SEAM, down))
            _write(draw, (left + pair // 2, top + height + _CAPTION // 2 + 2), tile.name, 12, pair, _PALE, "mm")
        top += height + _CAPTION + _GAP
    return sheet


def _write(
    draw: ImageDraw.ImageDraw,
    place: tuple[int, int],
    text: str,
    size: int,
    most_width: int,
    colour: tuple[int, int, int],
    anchor: str,
) -> None:
    """A line of text, shortened at its beginning to fit the width."""
    font = ImageFont.load_default(size)
    text = "".join(letter if letter.isprintable() else "?" for letter in text)
    while draw.textlength(text, font=font) > most_width and len(text) > 4:
        text = "…" + text.lstrip("…")[2:]
    draw.text(place, text, fill=colour, font=font, anchor=anchor)
