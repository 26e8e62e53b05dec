"""Drawn edits: against other rasterisers, exact partitions, and borders that are known."""

from itertools import pairwise

import numpy as np
import pytest
from matplotlib.path import Path as Outline

from cocanet.explore import cutting, editing, mending
from cocanet.explore.drawing import box_corners, draw_polygon, draw_stroke
from cocanet.explore.mending import Drawing
from tests.explore.servers import noise, serve, small_explorer, url, write_images

SIZE = (31, 43)


def centres(size):
    rows, columns = np.mgrid[: size[0], : size[1]] + 0.5
    return np.stack((columns.ravel(), rows.ravel()), 1)


def test_a_polygon_is_what_another_rasteriser_fills():
    draw = np.random.default_rng(0)
    for corners in (3, 4, 7, 12):
        angle = np.sort(draw.uniform(0, 2 * np.pi, corners))
        reach = draw.uniform(4, 30, corners)  # star-shaped: parity and winding agree
        points = np.stack((21 + reach * np.cos(angle), 15 + reach * np.sin(angle)), 1)
        expected = Outline([*points, points[0]], closed=True).contains_points(centres(SIZE)).reshape(SIZE)
        np.testing.assert_array_equal(draw_polygon(SIZE, [tuple(point) for point in points.tolist()]), expected)


def test_a_stroke_is_all_that_is_near_its_line():
    draw = np.random.default_rng(1)
    for count, radius in ((1, 3.5), (2, 0.5), (6, 4.2)):
        points = draw.uniform(-6, 45, (count, 2))
        steps = [a + (b - a) * t for a, b in pairwise(points) for t in np.linspace(0, 1, 1001)]
        line = np.array([*points, *steps])
        distance = np.array([np.hypot(*(line - centre).T).min() for centre in centres(SIZE)]).reshape(SIZE)
        mask = draw_stroke(SIZE, [tuple(point) for point in points.tolist()], radius)
        clear = abs(distance - radius) > 1e-2
        np.testing.assert_array_equal(mask[clear], (distance <= radius)[clear])


def check_partition(document):
    """Each pixel belongs to one segment; all segments but the background have pixels."""
    total = np.zeros(document.size, dtype=int)
    for segment in document.state.segments:
        mask = document.mask(segment)
        assert mask.any() or segment.id == document.state.background
        total += mask
    assert (total == 1).all()


def test_any_sequence_of_edits_leaves_a_partition_that_undo_restores():
    draw, image = np.random.default_rng(2), noise(24, 30, seed=3)
    document = editing.begin("a.png", "weights", draw.integers(0, 3, (24, 30)).repeat(1, 0), level=1)
    before, done = [document.labels()], 0
    while done < 25:
        action = str(draw.choice(mending.ACTIONS))
        ids = [segment.id for segment in document.state.segments]
        selected = draw.choice(ids, size=min(len(ids), int(draw.integers(0, 3))), replace=False).tolist()
        points = tuple((float(x), float(y)) for x, y in draw.uniform(-3, 33, (int(draw.integers(1, 5)), 2)))
        drawing = Drawing(points, float(draw.uniform(0.5, 9)), bool(draw.integers(2)), bool(draw.integers(2)))
        try:
            document = mending.apply(document, action, selected, drawing, lambda: image)
        except ValueError:
            continue
        check_partition(document)
        before.append(document.labels())
        done += 1
    while document.current:
        np.testing.assert_array_equal(document.labels(), before.pop())
        document = document.moved(-1)
    np.testing.assert_array_equal(document.labels(), before.pop())


@pytest.fixture
def two_fields():
    """A picture whose left and right differ, with a border at column 20 and noise."""
    image = np.zeros((30, 40, 3))
    image[:, :20], image[:, 20:] = (180, 90, 60), (90, 110, 170)
    return (image + np.random.default_rng(4).normal(0, 8, image.shape)).clip(0, 255).astype(np.uint8)


LEFT = np.arange(40) < 20


def whole(image):
    return editing.begin("a.png", "weights", np.ones(image.shape[:2], dtype=np.int64), level=1)


@pytest.mark.parametrize(
    ("action", "points"),
    [
        ("cut", ((21.5, 0.0), (19.0, 14.0), (21.0, 30.0))),  # a line somewhere near the border
        ("seeds", ((6.0, 15.0), (33.0, 12.0))),
    ],
)
def test_a_split_follows_the_image(two_fields, action, points):
    split = mending.apply(whole(two_fields), action, [0], Drawing(points), lambda: two_fields)
    first = split.mask(split.state.segments[0])
    assert len(split.state.segments) == 2
    wrong = np.minimum((first != LEFT).sum(), (first == LEFT).sum())
    assert wrong <= 3  # of 1,200 pixels; the straight line is wrong at 28


def test_pieces_have_one_colour_each(two_fields):
    split = mending.apply(whole(two_fields), "pieces", [0], Drawing(), lambda: two_fields)
    assert 2 <= len(split.state.segments) <= cutting.PIECES
    for segment in split.state.segments:
        columns = split.mask(segment).nonzero()[1]
        assert min((columns < 20).sum(), (columns >= 20).sum()) <= 3


def test_a_line_cuts_only_what_it_crosses():
    """Two discs are one segment; a line through one of them leaves the other whole."""
    rows, columns = np.mgrid[:40, :90]
    discs = ((rows - 20) ** 2 + (columns - 20) ** 2 < 144) | ((rows - 20) ** 2 + (columns - 66) ** 2 < 144)
    grey = np.full((40, 90, 3), 128, dtype=np.uint8)
    part = cutting.cut_along(grey, discs, [(6.0, 20.0), (34.0, 20.5)])
    other = discs & (columns > 45)
    assert part[other].all() or not part[other].any()
    assert 0.3 < part[discs & ~other].mean() < 0.7


def test_the_object_in_a_box():
    rows, columns = np.mgrid[:80, :100]
    disc = (rows - 38) ** 2 / 1.7 + (columns - 52) ** 2 < 400
    draw = np.random.default_rng(5)
    image = np.where(disc[..., None], (200, 60, 50), (70, 120, 90)) + draw.normal(0, 25, (80, 100, 3))
    found = cutting.object_in_box(image.clip(0, 255).astype(np.uint8), (30.0, 10.0), (74.0, 66.0))
    assert (found & disc).sum() / (found | disc).sum() > 0.95


def test_a_ring_is_filled():
    labels = np.zeros((9, 9), dtype=np.int64)
    labels[2:7, 2:7], labels[4, 4] = 1, 2
    filled = mending.fill_holes(editing.begin("a.png", "weights", labels, level=1), [1])
    assert (filled.labels() == 1).sum() == 25
    assert len(filled.objects) == 1
    with pytest.raises(ValueError, match="nothing to fill"):
        mending.fill_holes(filled, [1])


@pytest.mark.parametrize(
    ("action", "selected", "points", "words"),
    [
        ("paint", [0, 1], [(3, 3)], "2 segments are selected; select one to draw into"),
        ("paint", [], [(-50, -50)], "draw inside of it"),
        ("paint", [1], [], "a paint needs at least 1 point; got 0"),
        ("polygon", [], [(1, 1), (5, 5)], "a polygon needs at least 3 points; got 2"),
        ("cut", [1], [(3, 3)], "a cut needs a line, or two points; got 1 point"),
        ("cut", [1], [(30, 1), (39, 9)], "does not divide this segment"),
        ("seeds", [1], [(6, 6), (30, 30)], "both points must lie in the segment"),
        ("seeds", [1], [(6, 6), (6.2, 6)], "too close together"),
        ("pieces", [], [], "select a segment to split by colour first"),
        ("fill", [7], [], "there is no segment 7"),
    ],
)
def test_a_mistake_is_answered_by_one_line(two_fields, action, selected, points, words):
    labels = np.zeros((30, 40), dtype=np.int64)
    labels[4:14, 4:14] = 1
    document = editing.begin("a.png", "weights", labels, level=1)
    points = tuple((float(x), float(y)) for x, y in points)
    with pytest.raises(ValueError, match=words) as error:
        mending.apply(document, action, selected, Drawing(points), lambda: two_fields)
    assert "\n" not in str(error.value)


def test_drawn_edits_through_the_server(tmp_path):
    folder = write_images(tmp_path / "images", 1, (40, 60))
    with serve(small_explorer(folder)) as running:
        (key,) = running.keys()
        corners = [list(point) for point in box_corners((10.0, 8.0), (30.0, 28.0))]

        def edit(action, revision, segments=(), **drawn):
            body = {"action": action, "revision": revision, "segments": list(segments), "level": 3, **drawn}
            return running.client.post(url(key, "labels"), json=body)

        assert edit("polygon", 0, points=corners).status_code == 200
        answer = running.message(url(key, "labels"))
        new = max(answer.header["segments"], key=lambda segment: segment["id"])
        assert new["area"] == 400
        assert edit("paint", 2, [new["id"]], points=[[35, 18]], radius=4).status_code == 200
        for wrong, reason in (
            ({"points": [[1, "nan"]]}, "points: input should be a finite number"),
            ({"points": [[1e9, 1]]}, "points: input should be less than"),
            ({"points": [[1, 1]] * 4001}, "points: list should have at most 4000 items"),
            ({"points": [[1, 1]], "radius": 9999}, "radius: input should be less than"),
        ):
            refused = edit("paint", 3, **wrong)
            assert (refused.status_code, refused.json()["error"][: len(reason)]) == (400, reason)
        answer = running.message(url(key, "labels"))
    with serve(small_explorer(folder)) as running:  # after a restart
        again = running.message(url(key, "labels"))
        np.testing.assert_array_equal(again.arrays["labels"], answer.arrays["labels"])
        assert running.edit(key, "undo", 3).status_code == 200
