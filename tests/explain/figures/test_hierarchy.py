import numpy as np
import pytest
import torch
from matplotlib.collections import PathCollection

from cocanet.config import DynamicSlots, LevelConfig
from cocanet.explain.figures import BACKGROUND, PALETTE, hierarchy_figure
from cocanet.explain.figures.hierarchy import mean_colours
from tests.explain.panels import output_of, panels, texts, tiny_images
from tests.explain.test_steps import THREE_LEVELS, predict

FIRST, LAST = 1, 1 + 1 + 3 * 3 - 1
"""Panels of the levels: after the image, and after the first level's three steps, of which the last has no affinity."""


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
    output = predict()
    figure = hierarchy_figure(tiny_images(), output, index=1)
    expected = []
    for window, nodes in enumerate(output.levels[0].clusters.anchors[1].tolist()):
        expected += [(window // 4 * 4 + node // 3, window % 4 * 3 + node % 3) for node in nodes]
    drawn = dots(figure, FIRST)
    assert len(drawn) == 8 * 2
    assert as_set(drawn) == as_set(expected)


def test_last_level_anchors_lie_on_their_clusters_and_are_numbered():
    output = predict()
    figure = hierarchy_figure(tiny_images(), output, index=1)
    below, top = (level.clusters for level in output.levels)
    expected = [below.geometry.position[1, node // 3, node % 3].tolist() for node in top.anchors[1, 0].tolist()]
    assert len(panels(figure)) == LAST + 1 + 4 * 3 - 1
    np.testing.assert_allclose(dots(figure, LAST), expected, atol=1e-4)
    numbers = [text for text in figure.axes[0].texts if text.get_text() in "123" and text.get_fontsize() < 7]
    left, right, *_ = figure.axes[0].images[LAST].get_extent()
    order = [text.get_text() for text in numbers if left <= text.get_position()[0] <= right]
    assert order == ["1", "2", "3"]


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
    output, images = predict(), tiny_images()
    truth = output.encoder_masks.argmax(1)
    figure = hierarchy_figure(images, output, 0, truth, 1)
    expected = np.array([BACKGROUND, *PALETTE])[truth[0].numpy()]
    np.testing.assert_array_equal(panels(figure)[LAST], expected)


def test_any_number_of_levels():
    for levels in (THREE_LEVELS, (LevelConfig((8, 12), 4, 1.0, 0),)):
        figure = hierarchy_figure(tiny_images(), predict(levels=levels), 0)
        assert len(panels(figure)) == 1 + sum(3 * level.clusters for level in levels)
        titles = [text for text in texts(figure) if text.startswith("level")]
        assert titles[-1] == f"level {len(levels)}: 4 slots"
        assert len(titles) == len(levels)


def test_unused_slots_are_left_out():
    output = predict(dynamic=DynamicSlots(scope_threshold=0.2, max_slots=7))
    used = output.in_use.sum(1).tolist()
    assert used[0] < 7, "the case this is about"
    figure = hierarchy_figure(tiny_images(), output, 0)
    assert len(panels(figure)) == 1 + 3 * 3 + 3 * used[0]
    assert f"level 2: {used[0]} slots" in texts(figure)
    assert len(dots(figure, LAST)) == used[0] - 1


def test_a_model_without_levels_is_refused():
    labels = torch.zeros(1, 8, 12, dtype=torch.long)
    with pytest.raises(ValueError, match="no hierarchy"):
        hierarchy_figure(tiny_images(1), output_of(labels, labels, 2))
