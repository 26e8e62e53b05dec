"""The page in a real browser: everything it promises, by mouse and by key."""

import json
import re
import statistics

import numpy as np
import pytest
from tools.served import FLAGS, served

import cocanet
from cocanet.data.scenes import make_scenes
from cocanet.explain.compactness import compactness_maps
from cocanet.segment.explanation import as_images
from tests.explore.browser import chromium, drop, point, ready, state, until, write_scenes
from tests.explore.serving import noise, png

playwright = pytest.importorskip("playwright.sync_api", reason="browser tests need playwright")
pytestmark = pytest.mark.slow
NAME = "multi-dsprites"


@pytest.fixture(scope="module")
def segmenter():
    return cocanet.load(NAME)


@pytest.fixture(scope="module")
def browser():
    executable = chromium()
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=executable, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("page") / "scenes"


@pytest.fixture(scope="module")
def images(folder):
    return write_scenes(folder, NAME, 10)


@pytest.fixture(scope="module")
def address(images, folder):
    with served(NAME, str(folder)) as address:
        yield address


@pytest.fixture
def page(browser, address):
    """A fresh window; it asks nobody but the server, and no script of it fails."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    asked, failed = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: failed.append(str(error)))
    page.goto(address)
    ready(page)
    yield page
    context.close()
    assert not failed
    assert all(url.startswith((address, "blob:", "data:")) for url in asked)


def tab(page, name):
    page.keyboard.press({"why": "w", "whatif": "f", "slots": "o", "labels": "l"}[name])
    page.wait_for_selector(f"#{name}:not([hidden])")


def an_object(found):
    """A pixel in the middle of the largest object."""
    segment = max(found.objects, key=lambda part: part.area)
    rows, columns = np.nonzero(found.labels == segment.label)
    middle = np.argmin((rows - segment.centre[0]) ** 2 + (columns - segment.centre[1]) ** 2)
    return segment, int(rows[middle]), int(columns[middle])


def test_what_the_page_shows_of_ten_images_is_what_the_library_computes(page, images, segmenter):
    for index, image in enumerate(images):
        if index:
            page.keyboard.press("n")
            ready(page, f"{index:02d}.png")
        levels = [segmenter.segment(image, level=level) for level in (1, 2)]
        for level, found in enumerate(levels, 1):
            shown = state(page, f"[...state.found.maps[{level}].map]")
            np.testing.assert_array_equal(np.reshape(shown, found.labels.shape), found.labels)
            anchors = np.array(state(page, f"[...state.found.arrays.anchors{level}.values]"), dtype=np.float32)
            expected = segmenter.explain(image).anchors(level).astype(np.float32)
            np.testing.assert_array_equal(anchors, expected.ravel())
        segment, row, column = an_object(levels[-1])
        page.mouse.move(*point(page, row, column))
        until(page, f"document.getElementById('path').textContent.includes('row {row}, column {column}')")
        part = levels[0].segments[levels[0].labels[row, column]]
        window, cluster = divmod(part.slot, 4)
        assert page.inner_text("#path") == (
            f"row {row}, column {column} → level 1: window {window + 1}, cluster {cluster + 1} "
            f"({part.area:,} px, compactness {part.compactness:.2f}) → "
            f"object {segment.label} ({segment.area:,} px, compactness {segment.compactness:.2f})"
        )


def test_the_landscape_is_the_figures(page, images, segmenter):
    tab(page, "whatif")
    page.check("#landscape-objects")
    until(page, "Boolean(state.landscape)")
    image = as_images(images[0], segmenter.device)
    maps = compactness_maps(segmenter.model, image)
    shown = np.array(state(page, "[...state.landscape.arrays.objects.values]"), dtype=np.float32)
    np.testing.assert_array_equal(shown, maps.objects[0].numpy().ravel())
    page.check("#landscape-level1")
    shown = np.array(state(page, "[...state.landscape.arrays.level1.values]"), dtype=np.float32)
    np.testing.assert_array_equal(shown, maps.levels[0][0].numpy().ravel())
    assert "compactness that level 1 chooses anchors by" in page.inner_text("#caption")


def pixel(page, row, column):
    """The colour that is drawn in the middle of a pixel of the image."""
    script = """([row, column]) => import('/page/store.js').then(({ state }) => {
      const canvas = document.getElementById('picture'), { width, height } = state.found.image;
      const x = Math.floor((column + 0.5) * canvas.width / width), y = Math.floor((row + 0.5) * canvas.height / height);
      return [...canvas.getContext('2d').getImageData(x, y, 1, 1).data];
    })"""
    return page.evaluate(script, [row, column])


def test_drop_look_and_label(page, segmenter, folder):
    """The whole way: drop, segments, hover, click, play, a slider, merge, name, undo, export, and find it again."""
    image = make_scenes(NAME, count=30, seed=23)[4].image
    assert drop(page, png(image), "my scene.png") is not None
    ready(page)
    found = segmenter.segment(image)
    shown = np.reshape(state(page, "[...state.found.maps[2].map]"), found.labels.shape)
    np.testing.assert_array_equal(shown, found.labels)

    segment, row, column = an_object(found)
    page.keyboard.press("[")
    page.keyboard.press("[")
    page.mouse.move(2, 2)
    page.wait_for_timeout(100)
    assert pixel(page, row, column)[:3] == image[row, column].tolist()  # level 0: the pixels themselves
    page.keyboard.press("]")
    page.keyboard.press("]")
    page.wait_for_timeout(100)
    assert pixel(page, row, column)[:3] != image[row, column].tolist()  # tinted

    page.mouse.click(*point(page, row, column))
    page.wait_for_selector(".maps canvas")
    assert page.inner_text("#why-title") == f"Object {segment.label}"
    facts = page.inner_text("#facts")
    assert f"{segment.area:,} px" in facts
    assert f"{segment.compactness:.3f}" in facts
    assert f"{segment.confidence:.3f}" in facts

    page.keyboard.press(" ")
    steps = segmenter.explain(image).choices(2).steps
    until(page, f"document.getElementById('step-words').textContent.includes('Step {steps} of {steps}')")
    assert page.inner_text("#play").startswith("Play")  # at its end
    page.keyboard.press("Escape")

    tab(page, "whatif")
    page.focus("#knob-slots")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    until(page, "state.found.levels[1].clusters === 2")
    few = segmenter.segment(image, slots=2)
    shown = np.reshape(state(page, "[...state.found.maps[2].map]"), few.labels.shape)
    np.testing.assert_array_equal(shown, few.labels)
    page.click("#reset")
    until(page, "state.found.levels[1].clusters === 6")

    tab(page, "labels")
    objects = found.objects
    for number, part in enumerate(objects[:2]):
        rows, columns = np.nonzero(found.labels == part.label)
        where = point(page, rows[0], columns[0])
        page.keyboard.down("Shift") if number else None
        page.mouse.click(*where)
    page.keyboard.up("Shift")
    page.keyboard.press("m")
    page.wait_for_selector("#saved:has-text('merged 2 segments')")
    page.keyboard.press("c")
    page.keyboard.type("heart")
    page.keyboard.press("Enter")
    page.wait_for_selector("#things li:has-text('heart')")
    page.keyboard.press("z")
    until(page, "!document.getElementById('things').textContent.includes('heart')")
    page.keyboard.press("y")
    page.wait_for_selector("#things li:has-text('heart')")

    page.keyboard.press("e")
    page.wait_for_selector("#exported:has-text('objects.json')")
    exported = json.loads((folder / "coca-labels" / "exported" / "objects.json").read_text())
    entry = next(entry for entry in exported["images"] if entry["file_name"].startswith("dropped/my-scene-"))
    areas = [one["area"] for one in exported["annotations"] if one["image_id"] == entry["id"]]
    assert areas[0] == objects[0].area + objects[1].area
    assert "heart" in [category["name"] for category in exported["categories"]]

    page.reload()
    ready(page)
    page.wait_for_selector("#things li:has-text('heart')")
    assert page.inner_text("#title").startswith("dropped/my-scene-")
    labels = np.reshape(state(page, "[...state.labels.region.map]"), found.labels.shape)
    expected = np.isin(found.labels, (objects[0].label, objects[1].label))
    np.testing.assert_array_equal(labels == 1, expected)


def test_labelling_by_keys_alone(page):
    page.keyboard.press("n")
    ready(page, "01.png")
    tab(page, "labels")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("s")
    page.wait_for_selector("#saved:has-text('split 1 segment')")
    picked = state(page, "state.picked.size")
    assert picked >= 2  # the parts are selected, to merge them again
    page.keyboard.press("m")
    page.wait_for_selector(f"#saved:has-text('merged {picked} segments')")
    page.keyboard.press("x")
    page.wait_for_selector("#saved:has-text('deleted 1 segment')")
    page.keyboard.press("Control+z")
    page.wait_for_selector("#saved:has-text('merged')")
    assert page.locator(".tile .done").count() >= 1


def test_slots_and_the_scene_without_one(page, images, segmenter):
    tab(page, "slots")
    page.wait_for_selector(".slot")
    found = segmenter.explain(images[0])
    assert page.locator(".slot").count() == len(found.slots.masks)
    page.keyboard.press("1")
    page.wait_for_selector("#caption:has-text('without slot 1')")
    kept = np.arange(len(found.slots.masks)) != 0
    expected = (found.scene(kept) * 255).round()
    page.mouse.move(2, 2)
    page.wait_for_timeout(150)
    for row, column in ((3, 5), (30, 40), (60, 10)):
        assert pixel(page, row, column)[:3] == expected[row, column].tolist()
    page.keyboard.press("1")
    page.wait_for_selector("#caption", state="hidden")


def test_what_is_refused_is_said_where_it_happens(page, folder):
    assert drop(page, b"no image", "text.png") is None
    assert page.inner_text("#problem") == "Not an image."
    assert drop(page, png(noise(20, 20))[:-20], "cut.png") is None
    assert page.inner_text("#problem") == "The PNG file is cut off."
    assert drop(page, png(noise(20, 30)), "good.png") is not None
    page.wait_for_selector("#problem", state="hidden")
    document = folder / "coca-labels" / "02.png.json"
    document.parent.mkdir(exist_ok=True)
    document.write_text('{"format": "cocanet labels", "version": 99}')
    page.click(".tile[title='02.png']")
    tab(page, "labels")
    page.wait_for_selector("#labels-problem:has-text('has labels of version 99')")
    assert page.is_disabled("#act-merge")
    assert document.read_text() == '{"format": "cocanet labels", "version": 99}'
    document.unlink()


def test_two_windows_on_one_image(page, browser, address):
    other = browser.new_page()
    page.click(".tile[title='05.png']")
    ready(page, "05.png")
    tab(page, "labels")
    other.goto(page.url)
    ready(other)
    tab(other, "labels")
    page.keyboard.press("k")
    page.wait_for_selector("#saved:has-text('Saved')")
    other.keyboard.press("j")
    other.keyboard.press("b")
    other.wait_for_selector("#labels-problem:has-text('changed in another window')")
    other.wait_for_selector("#saved:has-text('Saved')")
    other.keyboard.press("j")
    other.keyboard.press("x")
    other.wait_for_selector("#saved:has-text('deleted')")
    other.close()


def test_a_server_that_is_gone_is_said(browser, images, folder, tmp_path):
    with served("tetrominoes", str(folder), "--labels", str(tmp_path)) as address:
        page = browser.new_page()
        page.goto(address)
        ready(page)
    page.keyboard.press("n")
    page.wait_for_selector("#problem:has-text('The server does not answer')")
    page.close()


def test_all_shipped_weights_are_there(browser, tmp_path):
    with served("--labels", str(tmp_path)) as address:
        page = browser.new_page()
        failed: list[str] = []
        page.on("pageerror", lambda error: failed.append(str(error)))
        page.goto(address)
        ready(page, "multi-dsprites-4-000000.png")
        tab(page, "whatif")
        page.check("#landscape-objects")
        page.select_option("#model", "tetrominoes")
        ready(page, "tetrominoes-4-000000.png")
        assert state(page, "state.about.size") == [32, 32]
        page.reload()
        ready(page, "tetrominoes-4-000000.png")
        assert not failed
        page.close()


@pytest.mark.parametrize(("width", "height"), [(360, 740), (800, 1100), (1280, 800), (2560, 1400)])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_sticks_out_on_any_screen(browser, address, width, height, scheme):
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
    page.goto(address)
    ready(page)
    for name in ("why", "whatif", "slots", "labels"):
        tab(page, name)
        page.wait_for_timeout(100)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(map(int, re.findall(r"\d+", paper)[:3]))
    assert (brightness > 600) == (scheme == "light")
    page.close()


def test_everything_has_a_name_and_a_visible_focus(page):
    for name in ("why", "whatif", "slots", "labels"):
        tab(page, name)
        page.wait_for_timeout(150)
        unnamed = page.evaluate("""() => [...document.querySelectorAll('button, input, select, canvas[tabindex]')]
          .filter((one) => one.offsetParent !== null)
          .filter((one) => !(one.innerText?.trim() || one.ariaLabel || one.labels?.length || one.title))
          .map((one) => one.outerHTML)""")
        assert unnamed == []
    page.keyboard.press("Tab")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("?")
    assert page.is_visible("#keys")
    assert page.locator("#keys-list dt").count() >= 15


def test_a_spinner_only_for_what_takes_long(page):
    held = []
    page.evaluate("""() => { window.spun = 0; const spinner = document.getElementById("spinner");
      new MutationObserver(() => { window.spun += !spinner.hidden; }).observe(spinner, { attributes: true }); }""")
    page.route("**/explanation*", lambda route: held.append(route))  # playwright marks its handler
    page.keyboard.press("n")
    until(page, "window.spun")  # as long as there is no answer, however slow the machine
    for route in held:
        route.continue_()
    ready(page, "01.png")
    page.wait_for_selector("#spinner", state="hidden")
    page.unroute_all()
    page.evaluate("window.spun = 0")
    page.route("**/explanation*", lambda route: route.fulfill(status=400, json={"error": "at once"}))
    page.keyboard.press("n")
    page.wait_for_selector("#problem:has-text('At once.')")
    assert page.evaluate("window.spun") == 0
    page.unroute_all()


def test_from_drop_to_overlay_and_a_sliders_move(page):
    """300 ms on a machine that does nothing else; tests share theirs, so the best may take twice as long."""
    scenes = make_scenes(NAME, count=9, seed=31)
    drops = [drop(page, png(scenes[index].image), f"{index}.png") for index in range(9)]
    tab(page, "whatif")
    moves = []
    for slots in (3, 4, 5, 7, 8, 9):
        before = page.evaluate("performance.now()")
        page.evaluate(
            """(slots) => { const knob = document.getElementById("knob-slots");
            knob.value = slots; knob.dispatchEvent(new Event("input")); }""",
            slots,
        )
        page.evaluate(
            """async (slots) => { const { state } = await import("/page/store.js");
            while (state.found.levels[1].clusters !== slots) await new Promise(requestAnimationFrame); }""",
            slots,
        )
        moves.append(page.evaluate("performance.now()") - before)
    print(f"drop to overlay: median {statistics.median(drops[1:]):.0f} ms, best {min(drops):.0f} ms")
    print(f"slider to overlay: median {statistics.median(moves):.0f} ms, best {min(moves):.0f} ms")
    assert min(drops) < 600
    assert min(moves) < 600
