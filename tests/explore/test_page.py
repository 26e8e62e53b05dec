"""The page in a real browser, by mouse and by key."""

import json
import re

import numpy as np
import pytest
from scipy import ndimage
from tools.film import served

import cocanet
from cocanet.data.generators import make_scenes
from cocanet.explain.compactness import compactness_maps
from cocanet.explore.explorer import open_explorer
from cocanet.predict.explanation import as_images
from tests.explore.browser import PATIENCE, drawn, drop, point, ready, state, until, write_scenes
from tests.explore.servers import noise, png, serve, small_explorer, write_images

pytestmark = pytest.mark.slow
NAME = "multi-dsprites"


@pytest.fixture(scope="module")
def segmenter():
    return cocanet.load(NAME)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("page") / "scenes"


@pytest.fixture(scope="module")
def images(folder):
    return write_scenes(folder, NAME, 6)


@pytest.fixture(scope="module")
def address(images, folder):
    with served(NAME, str(folder)) as (_, address):
        yield address


@pytest.fixture
def page(browser, address):
    """A new window; it sends requests to the server only, and no script fails."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(1000 * PATIENCE)
    page = context.new_page()
    requests, failed = [], []
    page.on("request", lambda request: requests.append(request.url))
    page.on("pageerror", lambda error: failed.append(str(error)))
    page.goto(address)
    ready(page)
    yield page
    context.close()
    assert not failed
    assert all(url.startswith((address.partition("?")[0], "blob:", "data:")) for url in requests)


def tab(page, name):
    page.keyboard.press({"why": "w", "whatif": "f", "slots": "o", "labels": "l"}[name])
    page.wait_for_selector(f"#{name}:not([hidden])")


def an_object(found):
    """A pixel in the middle of the largest object."""
    segment = max(found.objects, key=lambda part: part.area)
    rows, columns = np.nonzero(found.labels == segment.label)
    middle = np.argmin((rows - segment.centre[0]) ** 2 + (columns - segment.centre[1]) ** 2)
    return segment, int(rows[middle]), int(columns[middle])


def test_what_the_page_shows_is_what_the_library_computes(page, images, segmenter):
    for index, image in enumerate(images[:3]):
        if index:
            page.keyboard.press("n")
            ready(page, f"{index:02d}.png")
        levels = [segmenter.segment(image, level=level, min_score=0) for level in (1, 2)]
        for level, found in enumerate(levels, 1):
            shown = state(page, f"[...state.explanation.maps[{level}].map]")
            np.testing.assert_array_equal(np.reshape(shown, found.labels.shape), found.labels)
            anchors = np.array(state(page, f"[...state.explanation.arrays.anchors{level}.values]"), dtype=np.float32)
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


def test_compactness_maps_are_the_figures(page, images, segmenter):
    tab(page, "whatif")
    page.check("#compactness-objects")
    until(page, "Boolean(state.compactness)")
    image = as_images(images[0], segmenter.device)
    maps = compactness_maps(segmenter.model, image)
    shown = np.array(state(page, "[...state.compactness.arrays.objects.values]"), dtype=np.float32)
    np.testing.assert_array_equal(shown, maps.objects[0].numpy().ravel())
    page.check("#compactness-level1")
    shown = np.array(state(page, "[...state.compactness.arrays.level1.values]"), dtype=np.float32)
    np.testing.assert_array_equal(shown, maps.levels[0][0].numpy().ravel())
    assert "compactness by which level 1 chooses anchors" in page.inner_text("#caption")


def beside(mask, row, column):
    """A pixel inside of a segment that neither its border nor its number, near the middle, covers."""
    depth = ndimage.distance_transform_edt(mask)
    rows, columns = np.mgrid[: mask.shape[0], : mask.shape[1]]
    depth[np.hypot(rows - row, columns - column) < 3] = 0
    return tuple(int(place) for place in np.unravel_index(depth.argmax(), mask.shape))


def pixel(page, row, column):
    """The colour that is drawn in the middle of a pixel of the image."""
    script = """([row, column]) => import('/page/store.js').then(({ state }) => {
      const canvas = document.getElementById('picture'), { width, height } = state.explanation.image;
      const x = Math.floor((column + 0.5) * canvas.width / width), y = Math.floor((row + 0.5) * canvas.height / height);
      return [...canvas.getContext('2d').getImageData(x, y, 1, 1).data];
    })"""
    return page.evaluate(script, [row, column])


def test_from_a_dropped_image_to_exported_labels(page, segmenter, folder):
    """Drop, click, play, settings, merge, name, undo, export, reload."""
    image = make_scenes(NAME, count=30, seed=23)[4].image
    assert drop(page, png(image), "my scene.png")
    ready(page)
    found = segmenter.segment(image, min_score=0)
    shown = np.reshape(state(page, "[...state.explanation.maps[2].map]"), found.labels.shape)
    np.testing.assert_array_equal(shown, found.labels)

    segment, row, column = an_object(found)
    page.keyboard.press("[")
    page.keyboard.press("[")
    page.mouse.move(2, 2)
    drawn(page)
    assert pixel(page, row, column)[:3] == image[row, column].tolist()  # level 0: the pixels themselves
    page.keyboard.press("]")
    page.keyboard.press("]")
    drawn(page)
    plain = beside(found.labels == segment.label, row, column)
    assert pixel(page, *plain)[:3] == image[plain].tolist()  # in full colour
    page.keyboard.press("v")
    drawn(page)
    assert pixel(page, *plain)[:3] != image[plain].tolist()  # tinted
    page.keyboard.press("v")

    page.mouse.click(*point(page, row, column))
    page.wait_for_selector(".maps canvas")
    assert page.inner_text("#why-title") == f"Object {segment.label}"
    facts = page.inner_text("#facts")
    assert f"{segment.area:,} px" in facts
    assert f"{segment.compactness:.3f}" in facts
    assert f"{segment.confidence:.3f}" in facts

    page.keyboard.press(" ")
    steps = segmenter.explain(image).steps(2).used
    until(page, f"document.getElementById('step-words').textContent.includes('Step {steps} of {steps}')")
    assert page.inner_text("#play").startswith("Play")  # at its end
    page.keyboard.press("Escape")

    tab(page, "whatif")
    page.focus("#knob-slots")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    until(page, "state.explanation.levels[1].clusters === 2")
    few = segmenter.segment(image, slots=2, min_score=0)
    shown = np.reshape(state(page, "[...state.explanation.maps[2].map]"), few.labels.shape)
    np.testing.assert_array_equal(shown, few.labels)
    page.click("#reset")
    until(page, "state.explanation.levels[1].clusters === 6")
    assert not page.is_visible("#refined")
    page.check("#refine")
    until(page, "state.explanation.refined")
    page.wait_for_selector("#refined:has-text('masks are refined')")
    assert "refined" in page.inner_text("#whatif-summary")
    refined = segmenter.segment(image, refine=True, min_score=0)
    shown = np.reshape(state(page, "[...state.explanation.maps[2].map]"), refined.labels.shape)
    np.testing.assert_array_equal(shown, refined.labels)
    page.uncheck("#refine")
    until(page, "!state.explanation.refined")

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
    page.wait_for_selector("#segments li:has-text('heart')")
    page.keyboard.press("z")
    until(page, "!document.getElementById('segments').textContent.includes('heart')")
    page.keyboard.press("y")
    page.wait_for_selector("#segments li:has-text('heart')")

    page.keyboard.press("e")
    page.wait_for_selector("#exported:has-text('objects.json')")
    exported = json.loads((folder / "coca-labels" / "exported" / "objects.json").read_text())
    entry = next(entry for entry in exported["images"] if entry["file_name"].startswith("dropped/my-scene-"))
    areas = [one["area"] for one in exported["annotations"] if one["image_id"] == entry["id"]]
    assert areas[0] == objects[0].area + objects[1].area
    assert "heart" in [category["name"] for category in exported["categories"]]

    page.reload()
    ready(page)
    page.wait_for_selector("#segments li:has-text('heart')")
    assert page.inner_text("#title").startswith("dropped/my-scene-")
    labels = np.reshape(state(page, "[...state.labels.region.map]"), found.labels.shape)
    expected = np.isin(found.labels, (objects[0].label, objects[1].label))
    np.testing.assert_array_equal(labels == 1, expected)


def test_labelling_by_keys_alone(page):
    page.keyboard.press("n")
    ready(page, "01.png")
    tab(page, "labels")
    areas = state(page, "[...state.explanation.arrays.area2.values]")
    for _ in range(1 + areas.index(max(areas[1:]), 1)):
        page.keyboard.press("j")
    page.keyboard.press("s")
    page.wait_for_selector("#saved:has-text('split 1 segment')")
    picked = state(page, "state.selected.size")
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
    drawn(page)
    for row, column in ((3, 5), (30, 40), (60, 10)):
        assert pixel(page, row, column)[:3] == expected[row, column].tolist()
    page.keyboard.press("1")
    page.wait_for_selector("#caption", state="hidden")


def test_errors_show_where_they_happen(page, folder):
    assert not drop(page, b"no image", "text.png")
    assert page.inner_text("#problem") == "Not an image."
    assert not drop(page, png(noise(20, 20))[:-20], "cut.png")
    assert page.inner_text("#problem") == "The PNG file is cut off."
    assert drop(page, png(noise(20, 30)), "good.png")
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
    other = page.context.new_page()
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


def test_a_stopped_server_is_reported(browser, tmp_path):
    with serve(small_explorer(write_images(tmp_path, 2))) as running:
        page = browser.new_page()
        page.goto(running.address.url)
        ready(page)
    page.keyboard.press("n")
    page.wait_for_selector("#problem:has-text('The server does not answer')")
    page.close()


def test_all_shipped_weights_can_be_chosen(browser, tmp_path):
    with serve(open_explorer(None, [], tmp_path)) as running:
        page = browser.new_page()
        failed: list[str] = []
        page.on("pageerror", lambda error: failed.append(str(error)))
        page.goto(running.address.url)
        ready(page, "multi-dsprites-4-000000.png")
        tab(page, "whatif")
        page.check("#compactness-objects")
        page.select_option("#model", "tetrominoes")
        ready(page, "tetrominoes-4-000000.png")
        assert state(page, "state.about.size") == [32, 32]
        page.reload()
        ready(page, "tetrominoes-4-000000.png")
        assert not failed
        page.close()


def test_nothing_overflows_on_any_screen(browser, address):
    screens = (((360, 740), "light"), ((800, 1100), "dark"), ((1280, 800), "light"), ((2560, 1400), "dark"))
    for (width, height), scheme in screens:
        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        page.goto(address)
        ready(page)
        for name in ("why", "whatif", "slots", "labels"):
            tab(page, name)
            drawn(page)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        brightness = sum(map(int, re.findall(r"\d+", paper)[:3]))
        assert (brightness > 600) == (scheme == "light")
        page.close()


def test_everything_has_a_name_and_a_visible_focus(page):
    for name in ("why", "whatif", "slots", "labels"):
        tab(page, name)
        drawn(page)
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


HOLD = """() => {
  const fetched = window.fetch.bind(window), spinner = document.getElementById("spinner");
  Object.assign(window, { held: [], sent: [], refusal: null, spun: 0 });
  window.fetch = (path, options) => {
    if (!path.includes("/explanation")) return fetched(path, options);
    window.sent.push(path);
    const refused = window.refusal && new Response(JSON.stringify({ error: window.refusal }), { status: 400 });
    if (refused) return Promise.resolve(refused);
    return new Promise((answer) => window.held.push(() => answer(fetched(path, options))));
  };
  new MutationObserver(() => { window.spun += !spinner.hidden; }).observe(spinner, { attributes: true });
}"""
"""Holds the page's requests for explanations, inside of the page: a browser may send a request that follows at once on
`page.route` past the route."""
RELEASE = "() => window.held.splice(0).forEach((go) => go())"


def test_the_spinner_shows_for_slow_requests_only(page):
    page.evaluate(HOLD)
    page.clock.install()
    page.clock.pause_at(page.evaluate("Date.now() / 1000 + 3600"))  # from here on, time passes by `run_for` only
    page.keyboard.press("n")
    page.clock.run_for(190)
    assert page.evaluate("[window.held.length, window.spun]") == [1, 0]
    page.clock.run_for(50)
    assert page.evaluate("window.spun") == 1
    page.evaluate(RELEASE)
    page.clock.resume()
    ready(page, "01.png")
    page.wait_for_selector("#spinner", state="hidden")

    page.clock.pause_at(page.evaluate("Date.now() / 1000 + 3600"))
    page.evaluate("Object.assign(window, { refusal: 'at once', spun: 0 })")
    page.keyboard.press("n")
    until(page, "state.problems.picture")  # no time has passed
    page.clock.run_for(1000)
    assert page.inner_text("#problem") == "At once."
    assert page.evaluate("window.spun") == 0


def test_of_a_burst_of_slider_moves_only_the_last_is_computed(page):
    tab(page, "whatif")
    page.evaluate(HOLD)
    page.evaluate("""() => { const knob = document.getElementById("knob-slots");
      for (const slots of [3, 4, 5, 7]) { knob.value = slots; knob.dispatchEvent(new Event("input")); } }""")
    page.evaluate(RELEASE)
    until(page, "window.held.length")
    page.evaluate(RELEASE)
    until(page, "state.explanation.levels[1].clusters === 7")
    assert [re.findall(r"slots=(\d+)&image=false", path) for path in page.evaluate("window.sent")] == [["3"], ["7"]]
