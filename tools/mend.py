"""`python -m tools.mend PHOTOS`: labels three photographs by scripted pointer events, and prints IoU before and after.

PHOTOS has the folders `images` and `masks` of the Penn-Fudan Pedestrian Database, with longer sides of 320 pixels. The
places below were chosen by looking at the photographs, not at the masks.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import numpy as np
import tyro
from jaxtyping import Integer
from PIL import Image

from tools.film import FLAGS, READY, chromium, served

if TYPE_CHECKING:
    from playwright.sync_api import Page

KEYS = {"brush": "2", "eraser": "3", "polygon": "4", "box": "5"}
SETTLED = """(revision) => import('/page/store.js').then(({ state }) => {
  if (state.problems.labels) throw new Error(state.problems.labels);
  return state.labels.revision >= revision && !state.pending.length;
})"""
REVISION = "() => import('/page/store.js').then(({ state }) => Math.max(1, state.labels.revision))"


class Stroke(NamedTuple):
    """A tool, and where the pointer goes with it: (x, y) in the photograph's pixels."""

    tool: Literal["brush", "eraser", "polygon", "box"]
    places: str
    new: bool = False
    """Whether it begins a new object."""

    @property
    def points(self) -> list[tuple[float, float]]:
        pairs = (place.split(",") for place in self.places.split())
        return [(float(x), float(y)) for x, y in pairs]


SCRIPTS = {
    "FudanPed00021": (
        Stroke(
            "polygon",
            "238,55 246,51 256,58 256,70 252,79 256,88 259,105 262,128 258,137 268,141 272,150 265,154 263,150 268,166 "
            "278,200 283,217 292,221 307,222 306,228 292,233 280,239 270,220 258,200 250,192 241,190 241,183 234,196 "
            "226,213 228,226 236,236 232,239 212,235 211,224 214,206 222,180 222,148 226,130 222,112 222,95 236,79 "
            "236,68",
            new=True,
        ),
    ),
    "FudanPed00029": (
        Stroke(
            "polygon",
            "201,83 220,84 225,95 227,115 228,142 237,168 238,176 248,213 256,230 268,237 256,246 243,246 226,205 "
            "214,185 206,200 198,236 208,249 184,254 187,208 193,195 192,172 193,110 196,93",
            new=True,
        ),
        Stroke("brush", "216,60 218,72 214,80"),  # head
        Stroke("brush", "231,124 246,127 255,129"),  # arm
        Stroke("eraser", "214,196 208,212 217,212"),  # between the legs
    ),
    "FudanPed00053": (
        Stroke("box", "49,90 110,240", new=True),
        Stroke("brush", "72,99 72,110"),  # head
        Stroke("box", "212,78 277,252", new=True),
        Stroke("brush", "252,89 254,98"),  # head
        Stroke("eraser", "214,238 214,248"),  # floor
        Stroke("eraser", "271,236 274,244"),
    ),
}


@dataclass(frozen=True)
class Mend:
    photos: Annotated[Path, tyro.conf.Positional]
    weights: str = "objects-room"
    """Weights that predict the first masks."""


def run(page: Page, stroke: Stroke) -> None:
    """A stroke by the mouse, as a person would make it."""
    revision = page.evaluate(REVISION)
    page.keyboard.press(KEYS[stroke.tool])
    if stroke.new:
        page.keyboard.press("Escape")  # no selection: a new object
    box = page.locator("#picture").bounding_box()
    size = page.evaluate("() => import('/page/store.js').then(({ state }) => state.explanation.image)")
    assert box is not None
    by = box["width"] / size["width"]
    places = [(box["x"] + x * by, box["y"] + y * by) for x, y in stroke.points]
    if stroke.tool == "polygon":
        for place in (*places, places[-1]):
            page.mouse.click(*place)
    else:
        page.mouse.move(*places[0])
        page.mouse.down()
        for place in places[1:]:
            page.mouse.move(*place, steps=8)
        page.mouse.up()
    while not page.evaluate(SETTLED, revision + 1):
        page.wait_for_timeout(50)


def label_map(folder: Path, name: str) -> Integer[np.ndarray, "h w"]:
    return np.asarray(Image.open(folder / "exported" / "masks" / f"{name}.jpg.png"))


def export(page: Page) -> None:
    page.click("#export-png")
    page.wait_for_selector("#download")


def overlaps(truth: Integer[np.ndarray, "h w"], found: Integer[np.ndarray, "h w"], least: float) -> list[float]:
    """IoU of each person of at least a share of the photograph, with the best segment."""
    scores = []
    for person in np.unique(truth[truth > 0]):
        if (truth == person).mean() >= least:
            both = [((truth == person) & (found == label)).sum() for label in np.unique(found)]
            either = [((truth == person) | (found == label)).sum() for label in np.unique(found)]
            scores.append(max(np.array(both) / np.array(either)))
    return scores


def main() -> None:
    from playwright.sync_api import sync_playwright

    mend = tyro.cli(Mend, prog="python -m tools.mend")
    with tempfile.TemporaryDirectory() as place, sync_playwright() as driver:
        folder = Path(place)
        for name in SCRIPTS:
            shutil.copy(mend.photos / "images" / f"{name}.jpg", folder)
        browser = driver.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        with served(mend.weights, place) as (_, address):
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            page.goto(address)
            for index, (name, script) in enumerate(SCRIPTS.items()):
                if index:
                    page.keyboard.press("n")
                while not page.evaluate(READY):
                    page.wait_for_timeout(50)
                page.keyboard.press("l")
                page.keyboard.press("k")
                page.wait_for_selector("#saved:has-text('Saved')")
                export(page)
                truth = np.asarray(Image.open(mend.photos / "masks" / f"{name}_mask.png"))
                before = overlaps(truth, label_map(folder / "coca-labels", name), 0.01)
                start = time.perf_counter()
                for stroke in script:
                    run(page, stroke)
                seconds = time.perf_counter() - start
                export(page)
                after = overlaps(truth, label_map(folder / "coca-labels", name), 0.01)
                scores = ", ".join(f"{old:.2f} -> {new:.2f}" for old, new in zip(before, after, strict=True))
                clicks = sum(len(stroke.points) + 1 if stroke.tool == "polygon" else 1 for stroke in script)
                print(f"{name}: IoU {scores}; {clicks} clicks and drags, answered in {seconds:.1f} s", flush=True)
        browser.close()


if __name__ == "__main__":
    main()
