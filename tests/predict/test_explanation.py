"""An explanation has the segments of each level, and places in the image's own pixels."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from cocanet.config import DataConfig, Preset
from cocanet.explain.compactness import compactness_maps
from cocanet.explain.steps import clustering_steps, spread_soft
from cocanet.models.build import build
from cocanet.predict.explanation import as_images
from cocanet.predict.segment_settings import SegmentSettings
from cocanet.predict.segmenter import Segmenter
from tests.models.baselines.baselines import tiny_config
from tests.predict.models import real
from tests.tiny import token_net


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (*shape, 3), dtype=np.uint8)


def strided() -> Segmenter:
    """A model on cells of 2×2 pixels, as for photographs."""
    preset = Preset("photos", token_net(), DataConfig("tetrominoes"))
    return Segmenter(build(preset, seed=3), preset)


@pytest.mark.parametrize("fit", ["stretch", "pad", "crop"])
@pytest.mark.parametrize("make", [real, strided])
def test_every_level_is_that_of_segment(make, fit):
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
        cells = clustering_steps(at_size.encoding.levels, level - 1).anchors
        np.testing.assert_allclose(at_size.anchors(level), cells, atol=1e-5)
    np.testing.assert_allclose(enlarged.to_pixels(np.array([[0.0, 0.0], [7.0, 11.0]])), [[2, 2], [37, 57]])


@pytest.mark.parametrize("fit", ["pad", "crop"])
def test_cells_and_pixels_have_the_same_middle(fit):
    """The middle of the visible cells is the middle of the visible pixels."""
    found = real().explain(noise(50, 30), SegmentSettings(fit=fit))
    rows, columns = found.placement
    middle = found.to_pixels(np.array([rows.start + rows.span / 2 - 0.5, columns.start + columns.span / 2 - 0.5]))
    np.testing.assert_allclose(middle, [rows.first + rows.seen / 2 - 0.5, columns.first + columns.seen / 2 - 0.5])


def test_cells_of_several_pixels():
    """With a strided backbone, maps are over cells and anchors are in pixels."""
    segmenter, image = strided(), noise(8, 16)
    found = segmenter.explain(image)
    assert found.cell == (2, 2)
    assert found.encoding.levels[0].grid == (4, 8)
    steps = found.steps(2)
    assert steps.clusters.shape[1:] == (4, 8)
    np.testing.assert_allclose(steps.clusters.sum(0), 1, atol=1e-5)
    assert [values.shape for values in found.compactness.levels] == [(4, 8), (4, 8)]
    assert found.compactness.objects.shape == (8, 16)
    first = found.anchors(1)
    assert first[..., 0].max() > 4  # beyond the rows of cells: pixels
    cells = found.encoding.levels[0].clusters.anchors[0, :, 0].numpy()
    windows = np.arange(len(cells))
    rows, columns = 2 * (windows // 4) + cells // 2, 2 * (windows % 4) + cells % 2
    np.testing.assert_allclose(first[:, 0], np.stack((2 * rows + 0.5, 2 * columns + 0.5), -1))
    ones = torch.ones_like(found.encoding.levels[1].clusters.masks[:, :, :1])
    assert spread_soft(found.encoding.levels, 1, ones).shape[-2:] == (4, 8)


def test_compactness_maps_are_those_of_the_call():
    """Another temperature of the last level changes its candidates' compactness, and no other level's."""
    segmenter, image = real(), noise(8, 12)
    usual, hot = (segmenter.explain(image, SegmentSettings(temperature=value)).compactness for value in (None, 8.0))
    np.testing.assert_array_equal(usual.levels[0], hot.levels[0])
    np.testing.assert_array_equal(usual.levels[1], hot.levels[1])
    assert not np.array_equal(usual.levels[2], hot.levels[2])
    found = segmenter.explain(image, SegmentSettings(temperature=8.0))
    scores = found.encoding.levels[2].clusters.compactness[0, 0]
    assert {round(float(value), 4) for value in hot.levels[2].ravel()} <= {round(float(value), 4) for value in scores}


def test_compactness_maps_are_those_of_the_figure():
    segmenter, image = real(), noise(8, 12)
    maps = compactness_maps(segmenter.model, as_images(image, segmenter.device))
    for shown, expected in zip(segmenter.explain(image).compactness.levels, maps.levels, strict=True):
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
        segmenter.explain(image, SegmentSettings(dynamic=True, scope_threshold=share)).steps(3).used
        for share in (0.001, 0.9)
    ]
    assert counts[0] > counts[1] >= 1
    with pytest.raises(ValueError, match=r"scope_threshold needs dynamic slots; got 0\.5"):
        segmenter.segment(image, scope_threshold=0.5)
    with pytest.raises(ValueError, match="temperature must be above 0"):
        segmenter.segment(image, temperature=-1.0)


def test_refinement_is_of_the_objects_only():
    segmenter, image = real(), noise(8, 12)
    plain, refined = segmenter.explain(image), segmenter.explain(image, SegmentSettings(refine=True))
    assert [level.refined for level in refined.levels] == [False, False, True]
    assert (plain.refined, refined.refined) == (False, True)
    np.testing.assert_array_equal(refined.levels[2].labels, segmenter.segment(image, refine=True).labels)
    np.testing.assert_array_equal(refined.levels[1].labels, plain.levels[1].labels)
    assert torch.equal(refined.encoding.masks, plain.encoding.masks)


def test_scenes_of_some_slots():
    found = real().explain(noise(8, 12))
    assert found.scene(np.array([True, False, True, True])).shape == (8, 12, 3)
    with pytest.raises(ValueError, match="this image has 4 slots; got 2"):
        found.scene(np.array([True, False]))


def test_a_baseline_has_no_explanation():
    preset = Preset("baseline", tiny_config(), DataConfig("tetrominoes"))
    baseline = Segmenter(build(preset, seed=0), preset)
    with pytest.raises(ValueError, match="an explanation needs a COCA-Net"):
        baseline.explain(noise(16, 16))
    with pytest.raises(ValueError, match="temperature needs a COCA-Net"):
        baseline.segment(noise(8, 12), temperature=2.0)


def test_bytes_of_a_file_are_an_image(tmp_path):
    from PIL import Image

    Image.fromarray(noise(20, 30)).save(tmp_path / "a.png")
    segmenter = real()
    np.testing.assert_array_equal(
        segmenter.segment((tmp_path / "a.png").read_bytes()).labels, segmenter.segment(tmp_path / "a.png").labels
    )
    with pytest.raises(ValueError, match="these bytes: not an image"):
        segmenter.segment(b"nothing")
