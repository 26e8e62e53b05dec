"""Areas, boxes, centres, inertia and components against loops over pixels."""

from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cocanet.metrics.functional.overlap import border_slot
from cocanet.predict.shapes import background_label, count_pixels, find_runs, measure_shapes, split_components

LABELS = arrays(np.int64, st.tuples(st.integers(1, 9), st.integers(1, 9)), elements=st.integers(0, 4)).map(
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
def test_the_background_is_that_of_the_scores(labels):
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
    with mock.patch("cocanet.predict.shapes._BLOCK", block):
        np.testing.assert_array_equal(count_pixels(labels, 6), np.bincount(labels.ravel(), minlength=6))


def flood(labels: np.ndarray) -> list[set[tuple[int, int]]]:
    """Pixels of each connected component of the labels from 1 on, corners included."""
    left, parts = {(int(r), int(c)) for r, c in np.argwhere(labels > 0)}, []
    while left:
        part, edge = set(), [left.pop()]
        while edge:
            row, column = edge.pop()
            part.add((row, column))
            near = {(row + down, column + along) for down in (-1, 0, 1) for along in (-1, 0, 1)} & left
            same = {pixel for pixel in near if labels[pixel] == labels[row, column]}
            left -= same
            edge += same
        parts.append(part)
    return parts


@given(LABELS)
def test_every_component_has_its_own_label(labels):
    parts, origin = split_components(labels.astype(np.int32))
    np.testing.assert_array_equal(origin[parts], labels)
    assert list(origin) == sorted(origin)
    expected = {frozenset(part) for part in flood(labels)}
    found = {
        frozenset((int(r), int(c)) for r, c in np.argwhere(parts == label)) for label in range(1, int(parts.max()) + 1)
    }
    assert found == expected


@settings(max_examples=40)
@given(LABELS, st.integers(1, 12).map(float))
def test_small_components_go_to_the_nearest_that_remains(labels, least):
    parts, origin = split_components(labels.astype(np.int32), least)
    large = [component for component in flood(labels) if len(component) >= least]
    assert len(origin) == 1 + len(large)
    np.testing.assert_array_equal(np.unique(parts), np.arange(len(origin)))
    kept = np.array([*np.argwhere(labels == 0), *(pixel for component in large for pixel in component)])
    for pixel in np.ndindex(labels.shape):
        distance = np.hypot(*(kept - pixel).T)
        nearest = kept[np.isclose(distance, distance.min(initial=np.inf))]
        assert origin[parts[pixel]] in labels[tuple(nearest.T)]
