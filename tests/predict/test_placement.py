"""Masks lie where the image's own pixels are, whatever its size."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from cocanet.predict.images import read_pixels
from cocanet.predict.placement import (
    Axis,
    Placement,
    largest,
    largest_masks,
    model_view,
    place,
    resample_masks,
    resampling_weights,
)
from cocanet.predict.prediction import BoundingBox
from tests.predict.models import by_colour

COLOURS = np.array([[255, 0, 0], [0, 255, 0], [0, 0, 255]], dtype=np.uint8)
SIZES = st.tuples(st.integers(1, 60), st.integers(1, 60))
WIDE = st.tuples(st.integers(1, 60), st.integers(2, 60))
"""Torch repeats its first row where an image is one pixel wide."""


def colours_found(image: np.ndarray, size: tuple[int, int], **options) -> np.ndarray:
    """The stub's answer as numbers of colours."""
    found = by_colour(size).segment(image, min_score=0, **options)
    return found.numbers[found.labels]


@pytest.mark.parametrize("size", [(8, 12), (16, 5)])
def test_an_image_at_the_models_size_and_twice_that(size):
    colour = np.random.default_rng(0).integers(0, 3, size)
    np.testing.assert_array_equal(colours_found(COLOURS[colour], size), colour)
    twice = colour.repeat(2, 0).repeat(2, 1)
    np.testing.assert_array_equal(colours_found(COLOURS[twice], size), twice)


@pytest.mark.parametrize(("down", "along"), [(1, 3), (3, 1), (5, 7), (40, 33)])
@pytest.mark.parametrize("stripes", ["rows", "columns"])
def test_stripes_keep_their_edges_when_the_image_is_enlarged(down, along, stripes):
    size = (8, 12)
    colour = np.zeros(size, dtype=np.int64)
    colour += np.arange(8)[:, None] // 2 % 3 if stripes == "rows" else np.arange(12) // 3 % 3
    large = colour.repeat(down, 0).repeat(along, 1)
    np.testing.assert_array_equal(colours_found(COLOURS[large], size), large)


@pytest.mark.parametrize(("down", "along"), [(1, 1), (5, 7), (31, 4)])
def test_boxes_in_original_pixels(down, along):
    """Two rectangles, seen through a model of 16×20 pixels: exact boxes, areas but for rounded corners."""
    colour = np.full((16, 20), 2)
    colour[3:9, 2:7], colour[10:14, 9:19] = 0, 1
    found = by_colour((16, 20)).segment(COLOURS[colour.repeat(down, 0).repeat(along, 1)])
    assert found.size == (16 * down, 20 * along)
    assert [segment.slot for segment in found.segments] == [2, 1, 0]  # by area
    for segment, (top, left, high, wide) in zip(found.objects, [(10, 9, 4, 10), (3, 2, 6, 5)], strict=True):
        assert segment.box == BoundingBox(left * along, top * down, wide * along, high * down)
        middle = ((top + high / 2) * down - 0.5, (left + wide / 2) * along - 0.5)
        assert segment.centre == pytest.approx(middle, abs=0.01 * max(down, along))
        assert segment.area == pytest.approx(high * down * wide * along, abs=down * along)


@pytest.mark.parametrize("fit", ["stretch", "pad", "crop"])
@pytest.mark.parametrize("size", [(30, 90), (90, 30), (64, 64), (7, 100)])
def test_the_middle_stays_the_middle(fit, size):
    height, width = size
    image = np.zeros((*size, 3), dtype=np.uint8)
    image[:, : width // 2, 0] = image[:, width // 2 :, 1] = 255
    colour = colours_found(image, (16, 16), fit=fit)
    assert colour.shape == size
    placement = place(size, (16, 16), fit)
    seen = colour[placement.rows.visible, placement.columns.visible]
    expected = image[placement.rows.visible, placement.columns.visible].argmax(-1)
    # One model pixel may lie across the middle.
    wrong = np.flatnonzero((seen != expected).any(0)) + placement.columns.first + 0.5
    assert np.abs(wrong - width / 2).max(initial=0) <= 0.5 * placement.columns.seen / placement.columns.span
    assert (fit == "crop" and height != width) == (seen.shape != size)


def test_what_crop_cuts_off_is_background():
    image = np.zeros((10, 30, 3), dtype=np.uint8)
    image[..., 2], image[3:7, 13:17] = 255, (255, 0, 0)
    found = by_colour((10, 10)).segment(image, fit="crop")
    assert found.labels[:, :10].max() == found.labels[:, 20:].max() == 0
    assert found.objects[0].box == BoundingBox(13, 3, 4, 4)


def test_padding_repeats_the_edge_and_is_left_out_again():
    image = np.zeros((4, 8, 3), dtype=np.uint8)
    image[:2, :, 0] = image[2:, :, 1] = 255
    view = model_view(image, place((4, 8), (8, 8), "pad"))
    np.testing.assert_array_equal(view[:, 0].argmax(-1), [0, 0, 0, 0, 1, 1, 1, 1])
    found = by_colour((8, 8)).segment(image, fit="pad", min_score=0)
    assert [segment.area for segment in found.segments] == [16, 16]


def test_an_unknown_fit():
    with pytest.raises((ValueError, TypeError), match="fit"):
        place((4, 8), (8, 8), "squash")


@given(SIZES, SIZES, st.sampled_from(["stretch", "pad", "crop"]))
def test_every_placement_is_inside_and_whole(size, model, fit):
    placement = place(size, model, fit)
    for axis, pixels, cells in zip(placement, size, model, strict=True):
        assert 0 <= axis.first <= axis.first + axis.seen <= axis.pixels == pixels
        assert 0 <= axis.start <= axis.start + axis.span <= axis.cells == cells
        assert axis.seen >= 1
        assert axis.span >= 1
    assert any(axis.same or axis.seen == axis.pixels for axis in placement)
    if fit != "crop":
        assert all(axis.seen == axis.pixels for axis in placement)
    if fit != "pad":
        assert all(axis.span == axis.cells for axis in placement)
    image = np.zeros((*size, 3), dtype=np.uint8)
    assert model_view(image, placement).shape == (*model, 3)


@settings(deadline=None, max_examples=50)
@given(WIDE, WIDE, st.integers(0, 1000))
def test_resampling_agrees_with_torch(size, model, seed):
    masks = torch.rand(3, *model, generator=torch.Generator().manual_seed(seed))
    ours = torch.from_numpy(resample_masks(masks.numpy(), place(size, model), model))
    theirs = F.interpolate(masks[None], size, mode="bilinear", antialias=True)[0]
    torch.testing.assert_close(ours, theirs, atol=2e-5, rtol=0)


def test_two_pixels_of_three():
    np.testing.assert_allclose(
        resampling_weights(place((2, 1), (3, 1)).rows, 3), [[5 / 8, 3 / 8, 0], [0, 3 / 8, 5 / 8]]
    )


@pytest.mark.parametrize("window", [(4, 3), (8, 4), (2, 12)])
@pytest.mark.parametrize("size", [(40, 60), (17, 50), (8, 12)])
def test_windows_are_resampled_each_by_itself(window, size):
    """Every pixel takes its values from its own window only."""
    masks = torch.rand(2, 8, 12, generator=torch.Generator().manual_seed(0))
    ours = torch.from_numpy(resample_masks(masks.numpy(), place(size, (8, 12)), window))
    for row in range(size[0]):
        for column in range(size[1]):
            y, x = (row + 0.5) * 8 / size[0], (column + 0.5) * 12 / size[1]
            top, left = int(y) // window[0] * window[0], int(x) // window[1] * window[1]
            part = masks[:, top : top + window[0], left : left + window[1]]
            at = torch.tensor([[[[2 * (x - left) / window[1] - 1, 2 * (y - top) / window[0] - 1]]]])
            expected = F.grid_sample(part[None], at, padding_mode="border", align_corners=False).flatten()
            torch.testing.assert_close(ours[:, row, column], expected, atol=1e-5, rtol=0)


def test_strips_do_not_show(monkeypatch):
    masks = np.random.default_rng(1).random((4, 8, 12), dtype=np.float32)
    placement = place((70, 50), (8, 12), "pad")
    whole, labels = (
        resample_masks(masks, placement, (8, 12)),
        largest_masks(masks, placement, (8, 12)),
    )
    monkeypatch.setattr("cocanet.predict.placement._BLOCK", 1)
    np.testing.assert_allclose(resample_masks(masks, placement, (8, 12)), whole, atol=1e-6, rtol=0)
    assert (largest_masks(masks, placement, (8, 12)) == labels).mean() > 0.999
    np.testing.assert_array_equal(labels, whole.argmax(0))


def test_weights_stay_inside_what_is_shown():
    axis = Axis(pixels=10, first=0, seen=10, cells=8, start=2, span=4)
    weights = resampling_weights(axis, 8)
    assert weights[:, :2].max() == weights[:, 6:].max() == 0
    np.testing.assert_allclose(weights.sum(1), 1, rtol=1e-6)
    assert Placement(axis, axis).size == (10, 10)


@pytest.mark.parametrize("orientation", [3, 6, 8])
def test_the_orientation_tag_is_followed(tmp_path, orientation):
    upright = np.full((20, 30), 2)
    upright[2:6, 3:20], upright[12:18, 20:29] = 0, 1
    stored = {3: np.rot90(upright, 2), 6: np.rot90(upright, 1), 8: np.rot90(upright, -1)}[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    picture = Image.fromarray(np.ascontiguousarray(COLOURS[stored]))
    picture.save(tmp_path / "a.png", exif=exif)
    found = by_colour((20, 30)).segment(tmp_path / "a.png")
    np.testing.assert_array_equal(found.numbers[found.labels], upright)
    np.testing.assert_array_equal(read_pixels(Image.open(tmp_path / "a.png")), COLOURS[upright])


def test_a_large_image_needs_no_large_masks(monkeypatch):
    """Twelve million pixels: never more than a strip of soft masks at a time."""
    segmenter = by_colour((16, 16))
    image = np.zeros((3000, 4000, 3), dtype=np.uint8)
    image[..., 2], image[1000:2000, 500:1500] = 255, (255, 0, 0)
    seen = []
    monkeypatch.setattr("cocanet.predict.placement.largest", lambda values: seen.append(values.size) or largest(values))
    found = segmenter.segment(image)
    assert max(seen) <= 2**20
    left, top, width, height = found.objects[0].box
    assert abs(left - 500) < 250
    assert abs(top - 1000) < 190
    assert abs(width - 1000) < 300
    assert abs(height - 1000) < 300
