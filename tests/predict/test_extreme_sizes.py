"""Images of extreme aspect ratio: memory follows their pixels, and masks are those of the whole weight matrices."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from cocanet.limits import MAX_SIDE
from cocanet.predict import placement
from cocanet.predict.placement import largest_masks, mean_own_masks, place, resample_masks, resampling_weights
from tests.predict.models import by_colour


@pytest.mark.parametrize("size", [(1, 60_000), (60_000, 1)])
def test_memory_follows_the_pixels_not_the_longer_side(size):
    """One matrix of weights for this side alone would have two million values, several times over."""
    image = np.zeros((*size, 3), dtype=np.uint8)
    image[..., 0] = 255
    tracemalloc.start()
    try:
        found = by_colour((32, 32)).segment(image)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.labels.shape == size
    assert peak < 2**23 + 200 * size[0] * size[1], f"{peak / 2**20:.0f} MB"


@pytest.mark.parametrize("fit", ["stretch", "pad", "crop"])
@pytest.mark.parametrize("size", [(3, 70), (70, 3), (41, 37)])
def test_blocks_are_parts_of_one_product(monkeypatch, size, fit):
    monkeypatch.setattr(placement, "_LONGEST", 16)
    monkeypatch.setattr(placement, "_BLOCK", 200)
    masks = np.random.default_rng(0).random((3, 8, 12), dtype=np.float32)
    placed, window = place(size, (8, 12), fit), (4, 6)
    down, along = (resampling_weights(axis, side) for axis, side in zip(placed, window, strict=True))
    expected = np.einsum("rh,khw,cw->krc", down, masks, along)
    rows, columns = placed
    found = resample_masks(masks, placed, window)[:, rows.visible, columns.visible]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    labels = largest_masks(masks, placed, window).astype(np.int64)
    np.testing.assert_array_equal(labels, found.argmax(0))
    present, labels = np.unique(labels, return_inverse=True)
    labels = labels.reshape(found.shape[1:])
    means = [found[cluster][labels == label].mean() for label, cluster in enumerate(present)]
    np.testing.assert_allclose(mean_own_masks(masks, placed, window, labels, present), means, atol=1e-6)


def test_the_limit_of_a_side_is_what_a_jpeg_can_have():
    assert MAX_SIDE == 65_535
