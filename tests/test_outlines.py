"""`python -m tools.outlines`: which photographs are drawn, and where their objects' outlines lie."""

from __future__ import annotations

import numpy as np
import torch
from tools.outlines import Found, outlines_figure, ranked

from cocanet.explain.figures.canvas import main_axes
from cocanet.explain.figures.colours import BACKGROUND, PALETTE


def test_shown_are_those_that_a_share_of_the_others_score_less_than():
    scores = torch.randperm(100, generator=torch.Generator().manual_seed(0)).double()
    assert scores[ranked(scores)].tolist() == [10, 30, 50]
    with_unknown = torch.cat((torch.full((7,), torch.nan), scores))
    assert [index - 7 for index in ranked(with_unknown)] == ranked(scores)


def test_outlines_surround_the_objects_and_not_their_segments():
    truth, segments = torch.zeros(1, 8, 16).long(), torch.zeros(1, 8, 16).long()
    truth[:, 1:4, 2:12] = 1
    segments[:, 1:6, 2:12] = 1
    axes = main_axes(outlines_figure([Found(truth, segments, torch.tensor([0.6]).double())]))
    (picture,), (outline,) = axes.images, axes.collections
    colours = np.asarray(picture.get_array())
    assert np.allclose(colours[5, 5], PALETTE[0])
    assert np.allclose(colours[0, 0], BACKGROUND)
    left, right, _, top = picture.get_extent()
    low, high = outline.get_paths()[0].get_extents().get_points()
    cell = (right - left) / 16
    np.testing.assert_allclose(low, (left + 2 * cell, top + 1 * cell), atol=1e-6)
    np.testing.assert_allclose(high, (left + 12 * cell, top + 4 * cell), atol=1e-6)
    assert [text.get_text() for text in axes.texts] == ["0.60"]
