"""Areas, boxes, centres and inertia against a loop over pixels."""

from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cocanet.metrics.functional.overlap import border_slot
from cocanet.segment.shapes import background_label, count_pixels, find_runs, measure_shapes

LABELS = arrays(np.int64, st.tuples(st.integers(1, 12), st.integers(1, 12)), elements=st.integers(0, 4)).map(
    lambda labels: np.unique(labels, return_inverse=True)[1].reshape(labels.shape)
)


@given(LABELS)
def test_runs_make_the_map_again(labels):
    again = np.full(labels.shape, -1)
    for label, column, first, length in zip(*find_runs(labels), strict=True):
        assert (again[first : first + length, column] == -1).all()
        again[first : first + length, column] = label
    np.testing.assert_array_equal(again, labels)


@given(LABELS)
def test_shapes_against_the_pixels(labels):
    shapes = measure_shapes(find_runs(labels), int(labels.max()) + 1)
    for label in range(labels.max() + 1):
        points = np.argwhere(labels == label)
        low, high = points.min(0), points.max(0) + 1
        assert shapes.area[label] == len(points)
        np.testing.assert_array_equal(shapes.box[label], [low[1], low[0], *(high - low)[::-1]])
        np.testing.assert_allclose(shapes.centre[label], points.mean(0))
        inertia = ((points - points.mean(0)) ** 2).sum() + len(points) / 6
        assert shapes.inertia[label] == pytest.approx(inertia)


@given(LABELS)
def test_the_background_is_what_scores_take_for_it(labels):
    expected = border_slot(torch.from_numpy(labels)[None], int(labels.max()) + 1)
    assert background_label(labels) == int(expected[0])


def test_a_disc_is_compact_and_a_line_is_not():
    rows, columns = np.mgrid[:81, :81]
    disc = (((rows - 40) ** 2 + (columns - 40) ** 2) < 30**2).astype(int)
    assert measure_shapes(find_runs(disc), 2).compactness[1] == pytest.approx(1, abs=0.01)
    line = np.zeros((81, 81), int)
    line[40] = 1
    assert measure_shapes(find_runs(line), 2).compactness[1] < 0.05


@given(LABELS, st.integers(1, 30))
def test_pixels_are_counted_in_blocks(labels, block):
    with mock.patch("cocanet.segment.shapes._BLOCK", block):
        np.testing.assert_array_equal(count_pixels(labels, 6), np.bincount(labels.ravel(), minlength=6))
