"""An explanation: what `segment` says of each level, and where in the image's pixels it comes from."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from cocanet.config import DataConfig, FeedbackConfig, Preset
from cocanet.explain.choices import level_choices
from cocanet.explain.compactness import compactness_maps
from cocanet.explain.nodes import cell_grid, spread
from cocanet.models.build import build
from cocanet.segment.explanation import as_images
from cocanet.segment.segmenter import Segmenter
from cocanet.segment.settings import SegmentSettings
from tests.models.rivals.rivals import tiny_config
from tests.segment.models import real
from tests.tiny import token_net


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (*shape, 3), dtype=np.uint8)


def strided() -> Segmenter:
    """A model on cells of 2×2 pixels, as those of photographs have."""
    preset = Preset("photos", token_net(feedback=FeedbackConfig(rounds=2)), DataConfig("tetrominoes"))
    return Segmenter(build(preset, seed=3), preset)


@pytest.mark.parametrize("fit", ["stretch", "pad", "crop"])
@pytest.mark.parametrize("make", [real, strided])
def test_every_level_is_what_segment_says(make, fit):
    segmenter, image = make(), noise(30, 40)
    settings = SegmentSettings(fit=fit, slots=3, temperature=1.7)
    found = segmenter.explain(image, settings)
    levels = len(segmenter.preset.model.levels)
    assert len(found.levels) == levels
    for level in range(1, levels + 1):
        expected = segmenter.segment(image, level=level, fit=fit, slots=3, temperature=1.7)
        np.testing.assert_array_equal(found.levels[level - 1].labels, expected.labels)
        assert found.levels[level - 1].segments == expected.segments


def test_anchors_lie_in_the_images_pixels():
    segmenter = real()
    small, large = noise(8, 12), np.repeat(np.repeat(noise(8, 12), 5, 0), 5, 1)
    at_size, enlarged = segmenter.explain(small), segmenter.explain(large)
    for level in (1, 2, 3):
        cells = level_choices(at_size.encoding.levels, level - 1).anchors
        np.testing.assert_allclose(at_size.anchors(level), cells, atol=1e-5)
    np.testing.assert_allclose(enlarged.to_pixels(np.array([[0.0, 0.0], [7.0, 11.0]])), [[2, 2], [37, 57]])


@pytest.mark.parametrize("fit", ["pad", "crop"])
def test_places_go_there_and_back(fit):
    """The middle of each cell, taken to the image, lies where the model saw the image's pixel."""
    found = real().explain(noise(50, 30), SegmentSettings(fit=fit))
    rows, columns = found.placement
    middle = found.to_pixels(np.array([rows.start + rows.span / 2 - 0.5, columns.start + columns.span / 2 - 0.5]))
    np.testing.assert_allclose(middle, [rows.first + rows.seen / 2 - 0.5, columns.first + columns.seen / 2 - 0.5])


def test_cells_of_several_pixels():
    """With a backbone that shrinks the image, cells are no pixels: maps are over cells, anchors in pixels."""
    segmenter, image = strided(), noise(8, 16)
    found = segmenter.explain(image)
    assert found.cell == (2, 2)
    assert cell_grid(found.encoding.levels) == (4, 8)
    choices = found.choices(2)
    assert choices.clusters.shape[1:] == (4, 8)
    np.testing.assert_allclose(choices.clusters.sum(0), 1, atol=1e-5)
    assert [values.shape for values in found.landscape.levels] == [(4, 8), (4, 8)]
    assert found.landscape.objects.shape == (8, 16)
    first = found.anchors(1)
    assert first[..., 0].max() > 4  # beyond the rows of cells: pixels
    cells = found.encoding.levels[0].clusters.anchors[0, :, 0].numpy()
    windows = np.arange(len(cells))
    rows, columns = 2 * (windows // 4) + cells // 2, 2 * (windows % 4) + cells % 2
    np.testing.assert_allclose(first[:, 0], np.stack((2 * rows + 0.5, 2 * columns + 0.5), -1))
    ones = torch.ones_like(found.encoding.levels[1].clusters.masks[:, :, :1])
    assert spread(found.encoding.levels, 1, ones).shape[-2:] == (4, 8)


def test_the_landscape_is_of_the_call():
    """Another temperature of the last level changes its candidates' compactness, and no other level's."""
    segmenter, image = real(), noise(8, 12)
    usual, hot = (segmenter.explain(image, SegmentSettings(temperature=value)).landscape for value in (None, 8.0))
    np.testing.assert_array_equal(usual.levels[0], hot.levels[0])
    np.testing.assert_array_equal(usual.levels[1], hot.levels[1])
    assert not np.array_equal(usual.levels[2], hot.levels[2])
    found = segmenter.explain(image, SegmentSettings(temperature=8.0))
    scores = found.encoding.levels[2].clusters.compactness[0, 0]
    assert {round(float(value), 4) for value in hot.levels[2].ravel()} <= {round(float(value), 4) for value in scores}


def test_the_landscape_is_that_of_the_figure():
    segmenter, image = real(), noise(8, 12)
    maps = compactness_maps(segmenter.model, as_images(image, segmenter.device))
    for shown, expected in zip(segmenter.explain(image).landscape.levels, maps.levels, strict=True):
        np.testing.assert_array_equal(shown, expected[0].numpy())


def test_a_temperature_is_the_models_own_at_its_value():
    made = real()
    *below, last = made.preset.model.levels
    warmer = replace(made.preset.model, levels=(*below, replace(last, temperature=3.0)))
    other = Segmenter(build(replace(made.preset, model=warmer), seed=3), replace(made.preset, model=warmer))
    image = noise(20, 30)
    np.testing.assert_array_equal(made.segment(image, temperature=3.0).labels, other.segment(image).labels)
    np.testing.assert_array_equal(made.segment(image, temperature=1.0).labels, made.segment(image).labels)


def test_a_threshold_of_dynamic_slots():
    segmenter, image = real(), noise(20, 30)
    counts = [
        segmenter.explain(image, SegmentSettings(dynamic=True, stop_below=share)).choices(3).steps
        for share in (0.001, 0.9)
    ]
    assert counts[0] > counts[1] >= 1
    with pytest.raises(ValueError, match=r"stop_below says when dynamic slots stop; got 0\.5 for a fixed"):
        segmenter.segment(image, stop_below=0.5)
    with pytest.raises(ValueError, match="temperature must be above 0"):
        segmenter.segment(image, temperature=-1.0)


def test_feedback_is_told_by_its_origins():
    segmenter = real()
    assert segmenter.explain(noise(8, 12)).origins is None
    shares = segmenter.explain(noise(8, 12), SegmentSettings(feedback=3)).origins
    assert shares.shape == (4, 4)
    assert set(np.round(shares.sum(1), 6)) <= {0.0, 1.0}


def test_scenes_of_some_slots():
    found = real().explain(noise(8, 12))
    assert found.scene(np.array([True, False, True, True])).shape == (8, 12, 3)
    with pytest.raises(ValueError, match="this image has 4 slots; got 2"):
        found.scene(np.array([True, False]))


def test_a_model_without_a_hierarchy_has_nothing_to_explain():
    preset = Preset("rival", tiny_config(), DataConfig("tetrominoes"))
    rival = Segmenter(build(preset, seed=0), preset)
    with pytest.raises(ValueError, match="an explanation needs a COCA-Net"):
        rival.explain(noise(16, 16))
    with pytest.raises(ValueError, match="temperature needs a COCA-Net"):
        rival.segment(noise(8, 12), temperature=2.0)


def test_bytes_of_a_file_are_an_image(tmp_path):
    from PIL import Image

    Image.fromarray(noise(20, 30)).save(tmp_path / "a.png")
    segmenter = real()
    np.testing.assert_array_equal(
        segmenter.segment((tmp_path / "a.png").read_bytes()).labels, segmenter.segment(tmp_path / "a.png").labels
    )
    with pytest.raises(ValueError, match="these bytes: not an image"):
        segmenter.segment(b"nothing")
