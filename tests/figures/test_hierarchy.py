import numpy as np
import pytest
import torch
from matplotlib.collections import PathCollection

from cocanet.config import DynamicSlots, FeedbackConfig, LevelConfig
from cocanet.explain.nodes import of_one_image
from cocanet.figures import BACKGROUND, PALETTE, hierarchy_figure
from cocanet.figures.hierarchy import level_choices, mean_colours
from tests.figures.tiny import output_of, pictures, texts, tiny_images, tiny_model

DEEP = (LevelConfig((2, 3), 2, 1.0, 0), LevelConfig((2, 2), 3, 1.0, 0), LevelConfig((2, 2), 4, 1.0, 0))

FIRST, LAST = 1, 1 + 1 + 3 * 3 - 1
"""Panels of the levels: after the image, and after the first level's three steps, of which the last has no affinity."""


def found(**changes):
    with torch.no_grad():
        return tiny_model(**changes)(tiny_images())


def dots(figure, panel: int) -> np.ndarray:
    """Row and column, in pixels of a panel's picture, of the dots that lie on it."""
    image = figure.axes[0].images[panel]
    left, right, bottom, top = image.get_extent()
    rows, columns = image.get_array().shape[:2]
    marks = [c.get_offsets() for c in figure.axes[0].collections if isinstance(c, PathCollection)]
    places = np.concatenate(marks)
    x, y = (places[:, 0] - left) / (right - left), (places[:, 1] - top) / (bottom - top)
    inside = (x > 0) & (x < 1) & (y > 0) & (y < 1)
    return np.stack((y * rows - 0.5, x * columns - 0.5), -1)[inside]


def as_set(places) -> set:
    return {(round(float(row), 3), round(float(column), 3)) for row, column in places}


def test_first_level_anchors_lie_on_their_pixels():
    output = found()
    figure = hierarchy_figure(tiny_images(), output, index=1)
    expected = []
    for window, nodes in enumerate(output.levels[0].clusters.anchors[1].tolist()):
        expected += [(window // 4 * 4 + node // 3, window % 4 * 3 + node % 3) for node in nodes]
    drawn = dots(figure, FIRST)
    assert len(drawn) == 8 * 2
    assert as_set(drawn) == as_set(expected)


def test_last_level_anchors_lie_on_their_clusters_and_are_numbered():
    output = found()
    figure = hierarchy_figure(tiny_images(), output, index=1)
    below, top = (level.clusters for level in output.levels)
    expected = [below.geometry.position[1, node // 3, node % 3].tolist() for node in top.anchors[1, 0].tolist()]
    assert len(pictures(figure)) == LAST + 1 + 4 * 3 - 1
    np.testing.assert_allclose(dots(figure, LAST), expected, atol=1e-4)
    numbers = [text for text in figure.axes[0].texts if text.get_text() in "123" and text.get_fontsize() < 7]
    left, right, *_ = figure.axes[0].images[LAST].get_extent()
    order = [text.get_text() for text in numbers if left <= text.get_position()[0] <= right]
    assert order == ["1", "2", "3"]


@pytest.mark.parametrize("level", [0, 1])
def test_a_cluster_is_scope_times_affinity(level):
    choices = level_choices(of_one_image(found().levels, 0), level)
    if level == 0:
        np.testing.assert_allclose(choices.clusters[:-1], choices.scopes[:-1] * choices.affinities, atol=1e-5)
    assert (choices.scopes[0] > 1 - 1e-5).all()
    np.testing.assert_allclose(choices.scopes[-1], choices.clusters[-1], atol=1e-5)
    np.testing.assert_allclose(choices.scopes[:-1] - choices.clusters[:-1], choices.scopes[1:], atol=1e-5)


@pytest.mark.parametrize("index", [0, 1])
def test_clusters_of_the_last_level_are_the_encoders_masks(index):
    output = found(levels=DEEP)
    choices = level_choices(of_one_image(output.levels, index), 2)
    np.testing.assert_allclose(choices.clusters, output.encoder_masks[index].numpy(), atol=1e-6)


def test_the_first_levels_clusters_are_where_its_windows_are():
    output = found()
    choices = level_choices(of_one_image(output.levels, 1), 0)
    for window in range(8):
        row, column = window // 4 * 4, window % 4 * 3
        expected = output.levels[0].clusters.masks[1, window].view(3, 4, 3).numpy()
        np.testing.assert_array_equal(choices.clusters[:, row : row + 4, column : column + 3], expected)


def test_mean_colours_against_a_loop():
    rng = np.random.default_rng(0)
    picture, clusters = rng.random((4, 6, 3)), rng.random((2, 4, 6))
    ours = mean_colours(picture, clusters, (2, 3))
    owner = clusters.argmax(0)
    for row in range(4):
        for column in range(6):
            same = [
                picture[y, x]
                for y in range(4)
                for x in range(6)
                if (y // 2, x // 3, owner[y, x]) == (row // 2, column // 3, owner[row, column])
            ]
            np.testing.assert_allclose(ours[row, column], np.mean(same, 0))


def test_slots_have_the_colours_of_the_grid():
    output, images = found(), tiny_images()
    truth = output.encoder_masks.argmax(1)
    figure = hierarchy_figure(images, output, 0, truth, 1)
    expected = np.array([BACKGROUND, *PALETTE])[truth[0].numpy()]
    np.testing.assert_array_equal(pictures(figure)[LAST], expected)


@pytest.mark.parametrize("levels", [DEEP, (LevelConfig((8, 12), 4, 1.0, 0),)], ids=["three", "one"])
def test_any_number_of_levels(levels):
    figure = hierarchy_figure(tiny_images(), found(levels=levels), 0)
    assert len(pictures(figure)) == 1 + sum(3 * level.clusters for level in levels)
    titles = [text for text in texts(figure) if text.startswith("level")]
    assert titles[-1] == f"level {len(levels)}: 4 slots"
    assert len(titles) == len(levels)


def test_unused_slots_are_left_out():
    output = found(dynamic=DynamicSlots(stop_below=0.2, most=7))
    used = output.in_use.sum(1).tolist()
    assert used[0] < 7, "the case this is about"
    figure = hierarchy_figure(tiny_images(), output, 0)
    assert len(pictures(figure)) == 1 + 3 * 3 + 3 * used[0]
    assert f"level 2: {used[0]} slots" in texts(figure)
    assert len(dots(figure, LAST)) == used[0] - 1


def test_slots_that_feedback_took_have_a_row_and_no_step():
    feedback = FeedbackConfig(rounds=1, regroup=True)
    output = found(dynamic=DynamicSlots(stop_below=0.9, most=7), feedback=feedback)
    steps, used = (int(x[0].sum()) for x in (output.levels[-1].clusters.in_use, output.in_use))
    assert steps < used, "the case this is about"
    figure = hierarchy_figure(tiny_images(), output, 0)
    assert len(pictures(figure)) == 1 + 3 * 3 + 3 * steps + 1 + 3 * used
    assert f"level 2: {steps} slots" in texts(figure)


def test_a_model_without_levels_is_refused():
    labels = torch.zeros(1, 8, 12, dtype=torch.long)
    with pytest.raises(ValueError, match="no hierarchy"):
        hierarchy_figure(tiny_images(1), output_of(labels, labels, 2))


def test_feedback_has_a_column_of_its_own_and_the_last_level_stays_as_it_was_made():
    plain, corrected = found(), found(feedback=FeedbackConfig(rounds=4))
    before, after = (hierarchy_figure(tiny_images(), output) for output in (plain, corrected))
    shown = pictures(after)
    assert len(shown) == len(pictures(before)) + 1 + 4 * 3
    assert "feedback from the slots" in texts(after)
    assert "feedback from the slots" not in texts(before)
    for slot in range(4):
        row = len(pictures(before)) + 1 + 3 * slot
        np.testing.assert_allclose(shown[row], plain.encoder_masks[0, slot], atol=1e-6)
        np.testing.assert_allclose(shown[row + 1], corrected.encoder_masks[0, slot], atol=1e-6)
    owner = [masks[0].argmax(0).numpy() for masks in (plain.encoder_masks, corrected.encoder_masks)]
    assert (owner[0] != owner[1]).any()
    for panel, owners in ((LAST, owner[0]), (len(pictures(before)), owner[1])):
        colours = {slot: {tuple(c) for c in shown[panel][owners == slot].tolist()} for slot in np.unique(owners)}
        assert all(len(c) == 1 for c in colours.values())
        assert len({c for cs in colours.values() for c in cs}) == len(colours)
