"""`python -m tools.published NAME PATH…`: what shipped weights find in published images, for their card.

Only the segments are drawn, each in a colour of its own on grey: the images are their publishers', and are not shown.
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
from cocanet.data.store import Store
from cocanet.data.store_format import is_store
from cocanet.segment.drawing import label_colours
from cocanet.segment.images import read_pixels

CARDS = Path(__file__).parents[1] / "docs/weights"
HEIGHT, GAP, PAPER = 150, 8, 255


@dataclass(frozen=True)
class Published:
    name: tyro.conf.Positional[str]
    paths: tyro.conf.Positional[tuple[Path, ...]]
    """Images, or a store of them."""
    size: tuple[int, int] | None = None
    """Height and width that images are brought to first."""
    crop: tuple[int, int, int, int] | None = None
    """Rows from and up to, columns from and up to: the protocol's piece of an image."""
    columns: int = 5


def main() -> None:
    chosen = tyro.cli(Published, prog="python -m tools.published")
    found = cocanet.load(chosen.name).segment([cropped(image, chosen) for image in pictures(chosen.paths)])
    assert isinstance(found, list)
    out = CARDS / f"{chosen.name}-published.png"
    sheet([each.labels for each in found], chosen.columns).save(out, optimize=True)
    print(f"{out}: segments of {len(found)} images, without the images")


def pictures(paths: tuple[Path, ...]) -> Iterator[UInt8[np.ndarray, "h w 3"]]:
    for path in paths:
        if is_store(path):
            store = Store(path)
            yield from store.gather(np.arange(len(store)))[0]
        else:
            yield read_pixels(path)


def cropped(image: UInt8[np.ndarray, "h w 3"], chosen: Published) -> UInt8[np.ndarray, "height width 3"]:
    if chosen.size:
        height, width = chosen.size
        image = np.asarray(Image.fromarray(image).resize((width, height), Image.Resampling.BILINEAR))
    top, bottom, left, right = chosen.crop or (0, len(image), 0, image.shape[1])
    return image[top:bottom, left:right]


def sheet(labels: list[Integer[np.ndarray, "h w"]], columns: int) -> Image.Image:
    """Label maps of one height beside each other, so many in a row."""
    tiles = [tile(each) for each in labels]
    rows = [tiles[first : first + columns] for first in range(0, len(tiles), columns)]
    width = max(sum(tile.width + GAP for tile in row) for row in rows) - GAP
    out = Image.new("RGB", (width, len(rows) * (HEIGHT + GAP) - GAP), (PAPER,) * 3)
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
