"""`python -m tools.film`: a short film of the explorer for the README, from the real page in a real browser."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import tyro
from PIL import Image, ImageDraw
from playwright.sync_api import Page, sync_playwright

from tools.served import FLAGS, served

SETTLED = "() => import('/page/store.js').then(({ state }) => Boolean(state.found && state.labels && !state.busy))"
POINTER = [(0, 0), (0, 17), (4, 13), (7, 20), (10, 19), (7, 12), (12, 12)]


@dataclass(frozen=True)
class Film:
    weights: str = "clevr6"
    scene: int = 0
    """Which of the fresh scenes."""
    out: Path = Path("docs/images/explore.webp")
    width: int = 860
    quality: int = 62


@dataclass
class Camera:
    """Takes pictures of a page, with the pointer drawn in: a headless browser shows none."""

    page: Page
    width: int
    frames: list[Image.Image] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    pointer: tuple[float, float] = (700.0, 420.0)

    def take(self, milliseconds: int) -> None:
        self.page.wait_for_timeout(180)
        frame = Image.open(BytesIO(self.page.screenshot())).convert("RGB")
        left, top = self.pointer
        shape = [(left + x, top + y) for x, y in POINTER]
        ImageDraw.Draw(frame).polygon(shape, fill="white", outline="black", width=1)
        height = round(frame.height * self.width / frame.width)
        self.frames.append(frame.resize((self.width, height), Image.Resampling.LANCZOS))
        self.lengths.append(milliseconds)

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
    """Levels, a path, why, play, what if, slots and labels."""
    page = camera.page
    objects = centres(page)
    camera.take(1300)
    for key in ("[", "[", "[", "]", "]", "]"):
        camera.press(key, 550)
    for left, top in between(objects[0], objects[1], 5):
        camera.go(left, top)
        camera.take(220)
    page.mouse.click(*camera.pointer)
    page.wait_for_selector(".maps canvas")
    camera.go(camera.pointer[0] + 4, camera.pointer[1] + 4)
    camera.take(1500)
    camera.go(700, 690)
    page.keyboard.press("Escape")
    for _ in range(len(objects) + 1):
        camera.press(".", 600)
    camera.press("Escape f", 600)
    for slots in (3, 4, 5):
        page.locator("#knob-slots").fill(str(slots))
        page.wait_for_timeout(1200)
        camera.take(450)
    page.keyboard.press("r")
    page.wait_for_timeout(1200)
    page.check("#landscape-level2")
    page.wait_for_timeout(800)
    camera.take(1200)
    page.check("#landscape-none")
    page.keyboard.press("o")
    page.wait_for_selector(".slot")
    camera.take(700)
    camera.click(".slot:has-text('object 2') input")
    page.wait_for_selector("#caption:has-text('without')")
    camera.take(1300)
    camera.click(".slot:has-text('object 2') input")
    camera.press("l", 400)
    for number, place in enumerate(objects[:2]):
        camera.go(*place)
        if number:
            page.keyboard.down("Shift")
        page.mouse.click(*place)
        camera.take(600)
    page.keyboard.up("Shift")
    page.keyboard.press("m")
    page.wait_for_selector("#saved:has-text('merged')")
    camera.take(700)
    page.keyboard.press("c")
    page.keyboard.type("toy")
    page.keyboard.press("Enter")
    page.wait_for_selector("#things li:has-text('toy')")
    camera.take(1800)


def centres(page: Page) -> list[tuple[float, float]]:
    """Where the objects lie in the window, the largest first."""
    script = """() => import("/page/store.js").then(({ state }) => {
      const last = state.found.levels.length, { arrays, image } = state.found;
      const box = document.getElementById("picture").getBoundingClientRect();
      const labels = [...arrays[`area${last}`].values.keys()].slice(1);
      labels.sort((a, b) => arrays[`area${last}`].values[b] - arrays[`area${last}`].values[a]);
      return labels.map((label) => {
        const [row, column] = arrays[`centre${last}`].values.slice(2 * label, 2 * label + 2);
        return [box.x + (column + 0.5) * box.width / image.width, box.y + (row + 0.5) * box.height / image.height];
      });
    })"""
    found: Any = page.evaluate(script)
    return [(left, top) for left, top in found]


def between(start: tuple[float, float], end: tuple[float, float], steps: int) -> Iterator[tuple[float, float]]:
    for step in range(steps):
        share = step / (steps - 1)
        yield start[0] + share * (end[0] - start[0]), start[1] + share * (end[1] - start[1])


def main() -> None:
    film = tyro.cli(Film, prog="python -m tools.film")
    executable = shutil.which("chromium")
    if executable is None:
        raise SystemExit("no chromium here; Debian's package `chromium` has one")
    with (
        tempfile.TemporaryDirectory() as labels,
        served(film.weights, "--labels", labels) as address,
        sync_playwright() as driver,
    ):
        browser = driver.chromium.launch(executable_path=executable, args=list(FLAGS))
        page = browser.new_page(viewport={"width": 1180, "height": 740})
        page.goto(address)
        while not page.evaluate(SETTLED) or page.locator(".tile:not(:has(img))").count():
            page.wait_for_timeout(250)
        for _ in range(film.scene):
            page.keyboard.press("n")
        page.wait_for_timeout(2500)
        camera = Camera(page, film.width)
        shoot(camera)
        browser.close()
    film.out.parent.mkdir(parents=True, exist_ok=True)
    first, *rest = camera.frames
    options: dict[str, Any] = {"duration": camera.lengths, "loop": 0, "quality": film.quality, "method": 6}
    first.save(film.out, save_all=True, append_images=rest, **options)
    print(f"{film.out}: {len(camera.frames)} frames, {film.out.stat().st_size / 2**20:.2f} MB")


if __name__ == "__main__":
    main()
