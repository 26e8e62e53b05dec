"""One picture to show around: scenes in colour, and the objects that were found in them below."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Integer, UInt8
from PIL import Image, ImageDraw, ImageFont

from cocanet.predict.drawing import contours, label_colours

SIDE, GAP, MARGIN, HEADER, BELOW = 240, 10, 36, 76, 26
PAPER, INK, PALE, GROUND = (22, 24, 29), (244, 242, 236), (150, 152, 158), (40, 43, 50)


class Scene(NamedTuple):
    """An image and its label map."""

    image: UInt8[np.ndarray, "h w 3"]
    labels: Integer[np.ndarray, "h w"]


def draw_postcard(rows: Sequence[Sequence[Scene]], title: str, line: str) -> Image.Image:
    """Each row of scenes above its objects, under a title and a line."""
    columns = max(map(len, rows))
    width = 2 * MARGIN + columns * (SIDE + GAP) - GAP
    tall = 2 * SIDE + GAP // 2
    card = Image.new("RGB", (width, HEADER + len(rows) * (tall + BELOW) - BELOW + MARGIN), PAPER)
    draw = ImageDraw.Draw(card)
    draw.text((MARGIN, 30), title, fill=INK, font=ImageFont.load_default(24), anchor="lm")
    draw.text((MARGIN, 55), line, fill=PALE, font=ImageFont.load_default(14), anchor="lm")
    for down, row in enumerate(rows):
        top = HEADER + down * (tall + BELOW)
        for along, scene in enumerate(row):
            left = MARGIN + along * (SIDE + GAP)
            picture = Image.fromarray(scene.image).resize((SIDE, SIDE), Image.Resampling.LANCZOS)
            card.paste(picture, (left, top))
            card.paste(cut_out(scene), (left, top + SIDE + GAP // 2))
    return card


def cut_out(scene: Scene) -> Image.Image:
    """The objects in flat colours on a dark ground, with dark lines between them."""
    labels = np.asarray(Image.fromarray(scene.labels.astype(np.int32)).resize((SIDE, SIDE), Image.Resampling.NEAREST))
    colours = label_colours(int(labels.max()) + 1)
    colours[0] = GROUND
    pixels = colours[labels]
    pixels[contours(labels, 1)] = PAPER
    return Image.fromarray(pixels)
