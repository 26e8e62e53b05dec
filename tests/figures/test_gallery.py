import numpy as np
import pytest
import torch

from cocanet.figures.gallery import Discovered, gallery_figure
from cocanet.figures.grid import discovery_rows
from tests.figures.tiny import pictures, texts, tiny_images, tiny_model


def found(name: str, count: int, truth: bool = True) -> Discovered:
    images = tiny_images(count)
    with torch.no_grad():
        output = tiny_model()(images)
    return Discovered(name, images, output.encoder_masks.argmax(1) if truth else None, output, 1)


def test_a_row_for_each_set_with_four_panels_a_scene():
    sets = [found("one", 2), found("other", 2, truth=False)]
    figure = gallery_figure(sets)
    shown = pictures(figure)
    assert len(shown) == 2 * 2 * 4
    assert {"one", "other", "image", "painted", "decoder", "encoder"} <= set(texts(figure))
    first = discovery_rows(*sets[0][1:])[0]
    for panel, expected in zip(shown[:4], (first[0], first[1], first[3], first[4]), strict=True):
        np.testing.assert_array_equal(panel, expected)
    bare = discovery_rows(*sets[1][1:])[1]
    for panel, expected in zip(shown[12:], bare, strict=True):
        np.testing.assert_array_equal(panel, expected)


def test_no_sets_are_refused():
    with pytest.raises(ValueError, match="at least one data set"):
        gallery_figure([])
