"""Connected parts of segments, against a flood fill."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cocanet.segment.components import split_components

LABELS = arrays(np.int32, st.tuples(st.integers(1, 9), st.integers(1, 9)), elements=st.integers(0, 3)).map(
    lambda labels: np.unique(labels, return_inverse=True)[1].reshape(labels.shape).astype(np.int32)
)


def flood(labels: np.ndarray) -> list[set[tuple[int, int]]]:
    """Pixels of each connected part of the labels from 1 on, corners included."""
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
def test_every_part_has_a_label_of_its_own(labels):
    parts, origin = split_components(labels)
    np.testing.assert_array_equal(origin[parts], labels)
    assert list(origin) == sorted(origin)
    expected = {frozenset(part) for part in flood(labels)}
    found = {
        frozenset((int(r), int(c)) for r, c in np.argwhere(parts == label)) for label in range(1, int(parts.max()) + 1)
    }
    assert found == expected


@given(LABELS, st.integers(1, 12).map(float))
def test_small_parts_go_to_the_nearest_that_stay(labels, least):
    parts, origin = split_components(labels, least)
    large = [part for part in flood(labels) if len(part) >= least]
    assert len(origin) == 1 + len(large)
    np.testing.assert_array_equal(np.unique(parts), np.arange(len(origin)))
    kept = [*np.argwhere(labels == 0), *(pixel for part in large for pixel in part)]
    for pixel in np.ndindex(labels.shape):
        reach = {tuple(map(int, other)): np.hypot(*np.subtract(other, pixel)) for other in kept}
        nearest = [other for other, distance in reach.items() if np.isclose(distance, min(reach.values()))]
        assert origin[parts[pixel]] in {labels[other] for other in nearest}
