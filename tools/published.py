"""`python -m tools.published NAME PATH…`: segments that shipped weights predict in published images, for their card.

Only the segments are drawn, in colours on grey. The images belong to their publishers and are not shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro
from jaxtyping import Integer, UInt8
from PIL import Image

import cocanet
from cocanet.data.readers.base import CLEVR6
from cocanet.data.readers.deepmind import FAMILIES
from cocanet.data.readers.image_files import centre_box
from cocanet.data.readers.shapestacks import CROP
from cocanet.data.store import Store
from cocanet.data.store_format import is_store
from cocanet.predict.drawing import label_colours
from cocanet.predict.images import read_pixels

CARDS = Path(__file__).parents[1] / "docs/weights"
HEIGHT, GAP, WHITE = 150, 8, 255


@dataclass(frozen=True)
class Published:
    name: tyro.conf.Positional[str]
    paths: tyro.conf.Positional[tuple[Path, ...]]
    """Images as published, or a store of them; a store's images are cropped already."""
    columns: int = 5


def main() -> None:
    chosen = tyro.cli(Published, prog="python -m tools.published")
    found = cocanet.load(chosen.name).segment(list(pictures(chosen)))
    assert isinstance(found, list)
    out = CARDS / f"{chosen.name}-published.png"
    sheet([each.labels for each in found], chosen.columns).save(out, optimize=True)
    print(f"{out}: segments of {len(found)} images, without the images")


def pictures(chosen: Published) -> Iterator[UInt8[np.ndarray, "h w 3"]]:
    for path in chosen.paths:
        if is_store(path):
            store = Store(path)
            yield from store.gather(np.arange(len(store)))[0]
        else:
            yield cropped(read_pixels(path), chosen.name)


def cropped(image: UInt8[np.ndarray, "h w 3"], name: str) -> UInt8[np.ndarray, "height width 3"]:
    """The protocol's crop of an image, before it is resized."""
    if name == "shapestacks":
        top, left, bottom, right = centre_box(image.shape, CROP)
    elif name == CLEVR6:
        (clevr,) = (family for family in FAMILIES if family.name == "clevr_with_masks")
        scaled = Image.fromarray(image).resize((clevr.width, clevr.height), Image.Resampling.BILINEAR)
        image, (top, left, bottom, right) = np.asarray(scaled), clevr.box
    else:
        raise ValueError(f"no crop of published {name} images is known here; expected shapestacks or {CLEVR6}")
    return image[top:bottom, left:right]


def sheet(labels: list[Integer[np.ndarray, "h w"]], columns: int) -> Image.Image:
    """Label maps in rows of `columns`, all of one height."""
    tiles = [tile(each) for each in labels]
    rows = [tiles[first : first + columns] for first in range(0, len(tiles), columns)]
    width = max(sum(tile.width + GAP for tile in row) for row in rows) - GAP
    out = Image.new("RGB", (width, len(rows) * (HEIGHT + GAP) - GAP), (WHITE,) * 3)
    for number, row in enumerate(rows):
        left = 0
        for each in row:
            out.paste(each, (left, number * (HEIGHT + GAP)))
            left += each.width + GAP
    return out


def tile(labels: Integer[np.ndarray, "h w"]) -> Image.Image:
    height, width = labels.shape
    coloured = Image.fromarray(label_colours(int(labels.max()) + 1)[labels])
    return coloured.resize((round(width * HEIGHT / height), HEIGHT), Image.Resampling.NEAREST)


if __name__ == "__main__":
    main()
