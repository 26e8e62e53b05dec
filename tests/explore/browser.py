"""A real browser, Debian's chromium, and what it knows of the page."""

from __future__ import annotations

import base64
import shutil
import time
from pathlib import Path

import pytest

DROP = """async ([data, name]) => {
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  const carried = new DataTransfer();
  carried.items.add(new File([bytes], name, { type: "image/png" }));
  const { state } = await import("/page/store.js");
  const before = state.found, start = performance.now();
  document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: carried, bubbles: true, cancelable: true }));
  while (performance.now() - start < 20000) {
    await new Promise(requestAnimationFrame);
    if (state.problems.picture) return null;
    if (state.found && state.found !== before && state.found.image.key === state.key) break;
  }
  await new Promise(requestAnimationFrame);
  return performance.now() - start;
}"""
"""Drops an image on the page; milliseconds until its segments are drawn, or null where it is refused."""


def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("no chromium here; Debian's package `chromium` has one")
    return found


def drop(page, data: bytes, name: str = "dropped.png") -> float | None:
    """Milliseconds from the drop to the overlay."""
    answer: float | None = page.evaluate(DROP, [base64.b64encode(data).decode(), name])
    return answer


def state(page, words: str):
    """Something of what the page knows."""
    return page.evaluate(f"() => import('/page/store.js').then(({{ state }}) => {words})")


def until(page, words: str, seconds: float = 30) -> None:
    """Wait for something to be true of what the page knows."""
    end = time.monotonic() + seconds
    while not state(page, f"Boolean({words})"):
        assert time.monotonic() < end, f"never: {words}"
        page.wait_for_timeout(20)


def ready(page, name: str | None = None) -> None:
    """Wait until an image, of a name or any, and its labels are there."""
    until(page, "state.found && state.labels && state.found.image.key === state.key")
    if name is not None:
        until(page, f"state.labels && state.found?.image.name === {name!r} && state.found.image.key === state.key")


def point(page, row: float, column: float) -> tuple[float, float]:
    """Where a pixel of the image lies in the window."""
    box = page.locator("#picture").bounding_box()
    size = state(page, "state.found.image")
    left = box["x"] + (column + 0.5) * box["width"] / size["width"]
    return left, box["y"] + (row + 0.5) * box["height"] / size["height"]


def write_scenes(folder: Path, name: str, count: int, seed: int = 11) -> list:
    """Scenes of a generator as files."""
    from PIL import Image

    from cocanet.data.scenes import make_scenes

    folder.mkdir(parents=True, exist_ok=True)
    scenes = make_scenes(name, count=count, seed=seed)
    images = [scenes[index].image for index in range(count)]
    for index, image in enumerate(images):
        Image.fromarray(image).save(folder / f"{index:02d}.png")
    return images
