"""A real browser, Debian's chromium, and the state of the page."""

from __future__ import annotations

import base64
import shutil
import time
from pathlib import Path

import pytest

PATIENCE = 120
"""Seconds after which a test fails; a busy machine needs many."""
DROP = """async ([data, name]) => {
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  const carried = new DataTransfer();
  carried.items.add(new File([bytes], name, { type: "image/png" }));
  const { state } = await import("/page/store.js");
  const before = state.explanation;
  document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: carried, bubbles: true, cancelable: true }));
  for (;;) {
    await new Promise(requestAnimationFrame);
    if (state.problems.picture) return false;
    if (state.explanation && state.explanation !== before && state.explanation.image.key === state.key) return true;
  }
}"""
"""Drops an image on the page, and waits for its segments; false if it is refused."""


def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("chromium was not found")
    return found


def drop(page, data: bytes, name: str = "dropped.png") -> bool:
    """Drop an image on the page; False if it is refused."""
    answer: bool = page.evaluate(DROP, [base64.b64encode(data).decode(), name])
    return answer


def state(page, expression: str):
    """The value of an expression of the page's state."""
    return page.evaluate(f"() => import('/page/store.js').then(({{ state }}) => {expression})")


def until(page, expression: str, seconds: float = PATIENCE) -> None:
    """Wait until an expression of the page's state is true."""
    end = time.monotonic() + seconds
    while not state(page, f"Boolean({expression})"):
        assert time.monotonic() < end, f"never: {expression}"
        page.wait_for_timeout(20)


def ready(page, name: str | None = None) -> None:
    """Wait until an image, of a given name or any, and its labels have arrived."""
    expression = "state.explanation && state.labels && state.explanation.image.key === state.key"
    until(page, expression + (f" && state.explanation.image.name === {name!r}" if name is not None else ""))


def drawn(page) -> None:
    """Wait until all changes so far are drawn: they are before the next frame."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def point(page, row: float, column: float) -> tuple[float, float]:
    """Position in the window of a pixel of the image."""
    box = page.locator("#picture").bounding_box()
    size = state(page, "state.explanation.image")
    left = box["x"] + (column + 0.5) * box["width"] / size["width"]
    return left, box["y"] + (row + 0.5) * box["height"] / size["height"]


def write_scenes(folder: Path, name: str, count: int, seed: int = 11) -> list:
    """Scenes of a generator as files."""
    from PIL import Image

    from cocanet.data.generators import make_scenes

    folder.mkdir(parents=True, exist_ok=True)
    scenes = make_scenes(name, count=count, seed=seed)
    images = [scenes[index].image for index in range(count)]
    for index, image in enumerate(images):
        Image.fromarray(image).save(folder / f"{index:02d}.png")
    return images
