"""Outlines that give their mask back, and polygons compared with pycocotools and a test of each pixel."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from matplotlib.path import Path

from cocanet.data.annotations.polygons import fill, one_outline, outlines

masks = arrays(np.bool_, array_shapes(min_dims=2, max_dims=2, max_side=12)).filter(np.any)


@given(masks)
def test_outlines_give_the_mask_back(mask):
    assert np.array_equal(fill(outlines(mask), mask.shape), mask)


@given(masks, st.integers(5, 12))
def test_one_polygon_holds_parts_and_holes_even_as_shares_of_the_image(mask, digits):
    side = np.array(mask.shape[::-1])
    shares = (one_outline(mask) / side).round(digits)
    assert np.array_equal(fill([shares * side], mask.shape), mask)


def test_pixels_are_inside_by_their_centres():
    draw = np.random.default_rng(0)
    for _ in range(20):
        polygon = draw.uniform(-3, 23, (draw.integers(3, 8), 2))
        centres = np.stack(np.meshgrid(np.arange(20) + 0.5, np.arange(16) + 0.5), -1).reshape(-1, 2)
        winding = sum(
            Path(np.vstack((polygon[[0, a, a + 1]], polygon[:1])), closed=True).contains_points(centres).astype(int)
            for a in range(1, len(polygon) - 1)
        )
        # The triangles of a fan cover a point as often, modulo 2, as the polygon winds around it.
        assert np.array_equal(fill([polygon], (16, 20)), (winding % 2 == 1).reshape(16, 20))


def test_polygons_agree_with_pycocotools_but_for_the_rim():
    coco = pytest.importorskip("pycocotools.mask", reason="pycocotools is not installed")
    angles = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    disc = np.stack((50 + 30 * np.cos(angles), 40 + 20 * np.sin(angles)), 1)
    theirs = coco.decode(coco.frPyObjects([disc.ravel().tolist()], 80, 100))[..., 0].astype(bool)
    ours = fill([disc], (80, 100))
    assert (ours & theirs).sum() / (ours | theirs).sum() > 0.95
    for outline in outlines(theirs):
        again = coco.decode(coco.frPyObjects([outline.ravel().tolist()], 80, 100))[..., 0].astype(bool)
        assert np.array_equal(again, theirs), "corners of pixels are exact in both"
