"""A store at a glance: its recipe in one line, how many objects its images show, and a contact sheet."""

from __future__ import annotations

import colorsys
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, UInt8
from PIL import Image, ImageDraw, ImageFont

from cocanet.data.store import Store
from cocanet.labels import UNLABELLED
from cocanet.words import plural

_TILE = 128
_SEAM, _GAP, _MARGIN, _HEADER = 3, 14, 20, 44
_PAPER, _INK = (250, 250, 248), (40, 40, 44)
_VIVID = [
    *["e6553f", "3d8fe0", "f2b92e", "4bb76a", "a05fd0", "ee86b8", "35bcc4"],
    *["f08a3c", "8fa83a", "6b6fd6", "b5764d", "9fd4f0", "c9408a", "d7dd6a"],
]


def describe(store: Store) -> str:
    """The recipe in one line: its name, then its options, without lists."""
    recipe = dict(store.recipe)
    name = recipe.pop("name", None)
    recipe.pop("version", None)
    options = [
        f"{key.replace('_', ' ')} {value}"
        for key, value in recipe.items()
        if isinstance(value, str | int | float) and value != ""
    ]
    return ", ".join([name, *options] if name else options)


class ObjectCounts(NamedTuple):
    """`images[k]` images show k objects; the smallest visible object has `smallest` pixels."""

    images: Int[np.ndarray, " k"]
    smallest: int
    unlabelled: int
    """Images without labels in a labelled store."""


def count_objects(store: Store) -> ObjectCounts:
    """Count the objects visible in each image of a store, from its labels."""
    images = np.zeros(257 - store.background_labels, dtype=np.int64)
    smallest = store.meta.height * store.meta.width
    unlabelled = 0
    for chunk in _label_chunks(store):
        labels = chunk[(chunk != UNLABELLED).any(axis=(1, 2))]
        unlabelled += len(chunk) - len(labels)
        flat = labels.reshape(len(labels), -1).astype(np.int32)
        flat += 256 * np.arange(len(labels), dtype=np.int32)[:, None]
        pixels = np.bincount(flat.reshape(-1), minlength=256 * len(labels)).reshape(-1, 256)
        pixels = pixels[:, store.background_labels :]
        images += np.bincount((pixels > 0).sum(axis=1), minlength=len(images))
        smallest = min(smallest, int(pixels[pixels > 0].min(initial=smallest)))
    return ObjectCounts(np.trim_zeros(images, "b"), smallest, unlabelled)


def _label_chunks(store: Store, rows: int = 256) -> Iterator[np.ndarray]:
    for start in range(0, len(store), rows):
        yield store.gather(np.arange(start, min(start + rows, len(store))))[1]


def mask_colours(background: int) -> UInt8[np.ndarray, "256 3"]:
    """Greys for background labels, dark to light, then a fixed list of vivid colours, then generated hues."""
    palette = np.zeros((256, 3), dtype=np.uint8)
    for label in range(256):
        place = label - background
        if place < 0:
            palette[label] = 44 + 120 * label // max(1, background - 1) if background > 1 else 44
        elif place < len(_VIVID):
            palette[label] = tuple(bytes.fromhex(_VIVID[place]))
        else:
            palette[label] = [round(255 * c) for c in colorsys.hsv_to_rgb(place * 0.618 % 1, 0.55, 0.9)]
    return palette


def draw_sheet(store: Store, *, count: int = 30, first: int = 0) -> Image.Image:
    """`count` images of a store from `first` on, each with its mask to its right."""
    if count < 1 or not 0 <= first < len(store):
        raise ValueError(f"cannot show {count} images from {first} on: {store.path} holds {len(store)}")
    indices = np.arange(first, min(first + count, len(store)))
    images, labels = store.gather(indices)
    tiles = [images]
    if store.has_labels:
        masks = mask_colours(store.background_labels)[labels]
        masks[(labels == UNLABELLED).all(axis=(1, 2))] = _PAPER
        tiles.append(masks)
    scale = max(1, round(_TILE / store.meta.height))
    height, side = store.meta.height * scale, store.meta.width * scale
    width = len(tiles) * (side + _SEAM) - _SEAM
    columns = min(_columns(len(indices), width / height), len(indices))
    rows = -(-len(indices) // columns)
    canvas = Image.new(
        "RGB",
        (2 * _MARGIN + columns * (width + _GAP) - _GAP, _HEADER + _MARGIN + rows * (height + _GAP) - _GAP),
        _PAPER,
    )
    for i, pair in enumerate(zip(*tiles, strict=True)):
        row, column = divmod(i, columns)
        for place, pixels in enumerate(pair):
            tile = Image.fromarray(pixels).resize((side, height), Image.Resampling.NEAREST)
            left = _MARGIN + column * (width + _GAP) + place * (side + _SEAM)
            canvas.paste(tile, (left, _HEADER + row * (height + _GAP)))
    _write_title(canvas, store)
    return canvas


def _columns(count: int, aspect: float) -> int:
    """The number of columns that makes the sheet about 3:2."""
    return max(1, round(float(np.sqrt(1.5 * count / aspect))))


def _write_title(canvas: Image.Image, store: Store) -> None:
    name = describe(store)
    text = f"{name}    {plural(len(store), 'image')} of {store.meta.width} by {store.meta.height} px"
    font = ImageFont.load_default(16)
    draw = ImageDraw.Draw(canvas)
    while draw.textlength(text, font=font) > canvas.width - 2 * _MARGIN and len(text) > 8:
        text = text[:-2].rstrip("…") + "…"
    draw.text((_MARGIN, _HEADER // 2), text, fill=_INK, font=font, anchor="lm")
