"""`python -m tools.film`: an animation of the explorer for the manual, from the real page in a real browser."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro
from PIL import Image, ImageDraw

if TYPE_CHECKING:
    from playwright.sync_api import Page

FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
"""For a chromium that connects to this server only."""
READY = "() => import('/page/store.js').then(({ state }) => Boolean(state.explanation && state.labels && !state.busy))"
POINTER = [(0, 0), (0, 17), (4, 13), (7, 20), (10, 19), (7, 12), (12, 12)]


@dataclass(frozen=True)
class Film:
    weights: str = "objects-room"
    scene: int = 19
    """Index of the scene."""
    out: Path = Path("docs/images/explore.webp")
    width: int = 860
    quality: int = 62


@contextmanager
def served(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`coca explore …` as a process of its own, and its address."""
    command = [sys.executable, "-m", "cocanet", "explore", *arguments, "--no-browser", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().split()[0]
    finally:
        process.terminate()
        process.wait(20)


def chromium() -> str:
    found = shutil.which("chromium")
    if found is None:
        raise SystemExit("chromium was not found; Debian's package is called `chromium`")
    return found


@dataclass
class Camera:
    """Takes screenshots of a page, and draws the pointer, which a headless browser does not show."""

    page: Page
    width: int
    frames: list[Image.Image] = field(default_factory=list)
    durations: list[int] = field(default_factory=list)
    pointer: tuple[float, float] = (700.0, 420.0)

    def take(self, milliseconds: int) -> None:
        self.page.wait_for_timeout(180)
        frame = Image.open(BytesIO(self.page.screenshot())).convert("RGB")
        left, top = self.pointer
        shape = [(left + x, top + y) for x, y in POINTER]
        ImageDraw.Draw(frame).polygon(shape, fill="white", outline="black", width=1)
        height = round(frame.height * self.width / frame.width)
        self.frames.append(frame.resize((self.width, height), Image.Resampling.LANCZOS))
        self.durations.append(milliseconds)

    def go(self, left: float, top: float) -> None:
        self.page.mouse.move(left, top)
        self.pointer = left, top

    def click(self, selector: str) -> None:
        box = self.page.locator(selector).bounding_box()
        assert box is not None
        self.go(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        self.page.mouse.click(*self.pointer)

    def press(self, keys: str, milliseconds: int) -> None:
        for key in keys.split():
            self.page.keyboard.press(key)
        self.take(milliseconds)


def shoot(camera: Camera) -> None:
    """A poor mask becomes a label: a box finds the object, brush and eraser correct it."""
    page = camera.page
    camera.press("l", 900)
    camera.go(*place(page, 45.5, 50))
    page.mouse.click(*camera.pointer)
    camera.take(700)
    camera.press("5", 300)
    drag(camera, [(44, 17), (64, 62)], 5)
    saved(page, "drew")
    camera.take(1000)
    camera.press("2 + +", 300)
    drag(camera, [(46, 36), (44, 46), (43, 54), (44, 58)], 3)
    saved(page, "drew")
    camera.take(700)
    camera.press("3", 200)
    drag(camera, [(61, 37.5), (63, 45)], 4)
    saved(page, "erased")
    camera.take(700)
    page.keyboard.press("c")
    page.keyboard.type("cone")
    page.keyboard.press("Enter")
    page.wait_for_selector("#segments li:has-text('cone')")
    camera.go(*place(page, 30, 60))
    camera.press("Escape 1", 2200)


def place(page: Page, x: float, y: float) -> tuple[float, float]:
    """Where a pixel of the image is in the window."""
    box = page.locator("#picture").bounding_box()
    size: Any = page.evaluate("() => import('/page/store.js').then(({ state }) => state.explanation.image)")
    assert box is not None
    return box["x"] + x * box["width"] / size["width"], box["y"] + y * box["height"] / size["height"]


def drag(camera: Camera, points: list[tuple[float, float]], frames: int) -> None:
    """Draw with the pointer, with some frames for each stretch."""
    places = [place(camera.page, x, y) for x, y in points]
    camera.go(*places[0])
    camera.take(250)
    camera.page.mouse.down()
    for start, end in pairwise(places):
        for left, top in between(start, end, frames + 1):
            camera.go(left, top)
            camera.take(70)
    camera.page.mouse.up()


def saved(page: Page, edit: str) -> None:
    page.wait_for_selector(f"#saved:has-text('{edit}')")
    while page.evaluate("() => import('/page/store.js').then(({ state }) => state.pending.length)"):
        page.wait_for_timeout(20)


def between(start: tuple[float, float], end: tuple[float, float], steps: int) -> Iterator[tuple[float, float]]:
    for step in range(steps):
        share = step / (steps - 1)
        yield start[0] + share * (end[0] - start[0]), start[1] + share * (end[1] - start[1])


def main() -> None:
    from playwright.sync_api import sync_playwright

    film = tyro.cli(Film, prog="python -m tools.film")
    executable = chromium()
    with (
        tempfile.TemporaryDirectory() as labels,
        served(film.weights, "--labels", labels) as (_, address),
        sync_playwright() as driver,
    ):
        browser = driver.chromium.launch(executable_path=executable, args=list(FLAGS))
        page = browser.new_page(viewport={"width": 1180, "height": 740})
        page.goto(address)
        while not page.evaluate(READY) or page.locator(".tile:not(:has(img))").count():
            page.wait_for_timeout(250)
        for _ in range(film.scene):
            page.keyboard.press("n")
        page.wait_for_timeout(1500)
        while not page.evaluate(READY):
            page.wait_for_timeout(250)
        camera = Camera(page, film.width)
        shoot(camera)
        browser.close()
    film.out.parent.mkdir(parents=True, exist_ok=True)
    first, *others = camera.frames
    options: dict[str, Any] = {"duration": camera.durations, "loop": 0, "quality": film.quality, "method": 6}
    first.save(film.out, save_all=True, append_images=others, **options)
    seconds, size = sum(camera.durations) / 1000, film.out.stat().st_size / 2**20
    print(f"{film.out}: {len(camera.frames)} frames, {seconds:.1f} s, {size:.2f} MB")


if __name__ == "__main__":
    main()
