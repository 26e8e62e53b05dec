"""Drawing on the page: by mouse, by touch, by keys; numbers inside their segments; downloads."""

import io
import json
import zipfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage

from tests.explore.browser import PATIENCE, drawn, point, ready, state, until
from tests.explore.servers import png, serve, small_explorer

pytestmark = pytest.mark.slow
HEIGHT, WIDTH = 48, 72
LEFT = np.arange(WIDTH) < 36


@pytest.fixture
def running(tmp_path):
    """Two images of two fields, with a border at column 36."""
    fields = np.where(LEFT[:, None], (190, 90, 60), (80, 110, 180)) * np.ones((HEIGHT, 1, 1))
    for index in range(2):
        noisy = fields + np.random.default_rng(index).normal(0, 8, fields.shape)
        (tmp_path / f"{index}.png").write_bytes(png(noisy.clip(0, 255).astype(np.uint8)))
    with serve(small_explorer(tmp_path)) as running:
        yield running


@pytest.fixture
def page(browser, running):
    """The first image under "Labels", all of it background."""
    context = browser.new_context(viewport={"width": 1100, "height": 760}, has_touch=True)
    context.set_default_timeout(1000 * PATIENCE)
    page, failed = context.new_page(), []
    page.on("pageerror", lambda error: failed.append(str(error)))
    page.goto(running.address.url)
    ready(page)
    page.keyboard.press("l")
    if count := state(page, "state.explanation.arrays.slot3.shape[0] - 1"):
        for index in range(count):
            page.keyboard.press("Shift+j" if index else "j")
        page.keyboard.press("Shift+j")
        page.keyboard.press("m")
        saved(page, 2)
        page.keyboard.press("Escape")
    yield page
    context.close()
    assert not failed


def saved(page, revision):
    until(page, f"state.labels.revision === {revision} && !state.pending.length")


def labels(page):
    return np.reshape(state(page, "[...state.labels.region.map]"), (HEIGHT, WIDTH))


def drag(page, *places):
    page.mouse.move(*point(page, *places[0]))
    page.mouse.down()
    for place in places[1:]:
        page.mouse.move(*point(page, *place), steps=6)
    page.mouse.up()


def near(line, radius):
    """Pixels by their distance to a line through (row, column) of pixels' centres."""
    steps = np.concatenate([np.linspace(a, b, 400) for a, b in pairwise(line)])
    grid = np.stack(np.mgrid[:HEIGHT, :WIDTH], -1)[:, :, None]
    return np.sqrt(((grid - steps) ** 2).sum(-1).min(-1)) - radius


def test_brush_and_eraser(page):
    radius = state(page, "Math.max(0.75, state.brush * 72)") * 1.25**5
    page.keyboard.press("2")
    for _ in range(5):
        page.keyboard.press("+")
    line = [(10, 8), (10, 30), (34, 30)]
    drag(page, *line)
    saved(page, 3)
    off = near(line, radius)
    clear = abs(off) > 0.2  # a pointer is at whole pixels of the window
    np.testing.assert_array_equal((labels(page) == 1)[clear], (off <= 0)[clear])
    drag(page, (34, 30), (34, 60))  # goes on with the new object
    page.keyboard.press("3")
    drag(page, (34, 50), (34, 66))
    saved(page, 5)
    erased = near([(34, 50), (34, 66)], radius)
    off = np.minimum(off, near([(34, 30), (34, 60)], radius))
    clear = (abs(off) > 0.2) & (abs(erased) > 0.2)
    expected = (off <= 0) & (erased > 0)
    np.testing.assert_array_equal((labels(page) == 1)[clear], expected[clear])
    page.reload()
    ready(page)
    np.testing.assert_array_equal((labels(page) == 1)[clear], expected[clear])
    page.keyboard.press("z")
    page.wait_for_selector("#saved:has-text('drew')")


def test_a_rough_line_cuts_along_the_image(page):
    page.keyboard.press("6")
    drag(page, (0, 38), (20, 35), (47, 37))
    saved(page, 3)
    part = labels(page) == 1
    assert min((part != LEFT).sum(), (part == LEFT).sum()) <= 4  # of 3,456 pixels
    page.keyboard.press("z")
    saved(page, 4)
    page.mouse.click(*point(page, 24, 10))
    page.mouse.click(*point(page, 20, 60))
    saved(page, 5)
    part = labels(page) == 1
    assert min((part != LEFT).sum(), (part == LEFT).sum()) <= 4


def test_a_polygon_by_touch_and_a_box_by_keys(page):
    page.tap("#tool-polygon")
    for place in ((5, 5), (5, 25), (25, 25), (25, 5), (25, 5)):
        page.touchscreen.tap(*point(page, *place))
    saved(page, 3)
    expected = np.zeros((HEIGHT, WIDTH), dtype=bool)
    expected[6:25, 6:25] = True  # without the border, where a finger's place is rounded
    found = labels(page) == 1
    assert found[expected].all()
    assert found.sum() <= 21 * 21
    page.keyboard.press("5")
    page.keyboard.press("q")  # the box itself
    page.keyboard.press("Escape")
    page.focus("#picture")
    state(page, "state.hover = {x: 40, y: 10}")
    page.keyboard.press("Enter")
    for _ in range(8):
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    saved(page, 4)
    expected = np.zeros((HEIGHT, WIDTH), dtype=bool)
    expected[10:18, 40:48] = True
    np.testing.assert_array_equal(labels(page) == 2, expected)


def test_numbers_are_inside_their_segments(page):
    page.keyboard.press("4")
    around = [(6, 6), (6, 60), (40, 60), (40, 50), (14, 50), (14, 6)]  # a corner: its centre of mass is outside
    for place in (*around, around[-1]):
        page.mouse.click(*point(page, *place))
    saved(page, 3)
    drawn(page)
    badges = page.evaluate("""() => Promise.all([import('/page/badges.js'), import('/page/store.js')])
      .then(([{ badgesOf }, { state }]) => badgesOf(state.labels.region, state.labels.segments, 1))""")
    for badge in badges:
        mask = labels(page) == int(badge["text"])
        depth = ndimage.distance_transform_edt(np.pad(mask, 1))[1:-1, 1:-1]
        row, column = (int(badge[axis]) for axis in ("y", "x"))
        assert depth[row, column] >= 0.8 * depth.max()
    assert len(badges) == 1


def test_exports_are_downloaded(page, running):
    page.keyboard.press("4")
    for place in ((5, 5), (5, 25), (25, 25), (25, 25)):
        page.mouse.click(*point(page, *place))
    saved(page, 3)
    with page.expect_download() as begun:
        page.keyboard.press("d")
    assert begun.value.suggested_filename == "objects.json"
    exported = running.explorer.labels.folder / "exported" / "objects.json"
    assert json.loads(Path(begun.value.path()).read_text()) == json.loads(exported.read_text())
    page.click("#export-png")
    page.wait_for_selector("#exported:has-text('label map')")
    with page.expect_download() as begun:
        page.click("#download")
    with zipfile.ZipFile(begun.value.path()) as archive:
        (name,) = archive.namelist()
        np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(archive.read(name)))), labels(page))


def test_nothing_of_an_image_stays_when_the_next_is_shown(page):
    page.keyboard.press("j")
    page.keyboard.press("u")  # the background in pieces
    saved(page, 3)
    page.keyboard.press("Escape")
    page.keyboard.press("m")  # refused: two must be selected
    page.keyboard.press("e")
    page.wait_for_selector("#download")
    page.keyboard.press("n")
    assert state(page, "[state.explanation, state.labels, state.selected.size, state.pending.length]") == [
        None,
        None,
        0,
        0,
    ]
    ready(page, "1.png")
    drawn(page)
    assert page.inner_text("#exported") == ""
    assert page.inner_text("#saved").startswith("Not labelled yet")
    assert not page.is_visible("#labels-problem")
