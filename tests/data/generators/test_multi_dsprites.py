from __future__ import annotations

from pathlib import Path

import matplotlib.colors
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cocanet.data.generators.multi_dsprites import (
    CENTRES,
    MIN_VISIBLE,
    ORIENTATIONS,
    SCALES,
    MultiDSprites,
    Sprites,
    compose,
    hsv_to_rgb,
    render,
)


def _canvas(sprites: Sprites) -> np.ndarray:
    masks, corner = render(sprites)
    whole = np.zeros((len(masks), 64, 64), dtype=bool)
    for canvas, mask, (top, left) in zip(whole, masks, corner, strict=True):
        canvas[top : top + mask.shape[0], left : left + mask.shape[1]] = mask
    return whole


def _centroids(masks: np.ndarray) -> np.ndarray:
    grid = np.indices((64, 64)).reshape(2, -1)
    flat = masks.reshape(len(masks), -1).astype(float)
    return (flat @ grid.T) / flat.sum(axis=1, keepdims=True)


def _every_sprite(centre: np.ndarray) -> Sprites:
    """All 3 × 6 × 40 sprites of the grid, each at its row of `centre`."""
    shape, scale, orientation = (a.reshape(-1) for a in np.meshgrid(range(3), SCALES, ORIENTATIONS, indexing="ij"))
    number = np.arange(len(shape))
    return Sprites(number, np.zeros_like(number), shape, scale, orientation, centre)


def test_real_frames_have_a_matching_sprite(samples: Path) -> None:
    frames = np.load(samples / "dsprites" / "dsprites_gif320.npz", allow_pickle=False)["imgs"].astype(bool)
    frames, repeats = np.unique(frames, axis=0, return_counts=True)
    assert repeats.sum() == 320
    # Where a sprite's centroid lies relative to its centre leaves one place on the grid for each candidate.
    middle = np.full((720, 2), CENTRES[16])
    reference = _canvas(_every_sprite(middle))
    lean, areas = _centroids(reference) - middle, reference.sum(axis=(1, 2))
    best = []
    for frame, centroid in zip(frames, _centroids(frames), strict=True):
        likely = np.abs(areas - frame.sum()) < 0.15 * frame.sum()
        place = CENTRES[np.abs((centroid - lean)[..., None] - CENTRES).argmin(axis=-1)]
        sprites = Sprites(*(values[likely] for values in _every_sprite(place)))
        masks = _canvas(sprites)
        overlap = (masks & frame).sum(axis=(1, 2)) / (masks | frame).sum(axis=(1, 2))
        best.append(overlap.max())
    mean = np.average(best, weights=repeats)
    assert mean >= 0.995
    assert min(best) >= 0.91  # a few pixels of the smallest ellipse, which has 76


def test_later_sprites_cover_earlier_ones() -> None:
    sprites = Sprites(
        scene=np.array([0, 0]),
        order=np.array([0, 1]),
        shape=np.array([0, 0]),
        scale=np.array([1.0, 0.5]),
        orientation=np.zeros(2),
        centre=np.full((2, 2), 15.5),
    )
    composed = compose(sprites, scenes=1, most=3)
    assert composed.area.tolist() == [[400, 100, 0]]
    assert composed.visible.tolist() == [[300, 100, 0]]
    assert (composed.labels[0, 11:21, 11:21] == 2).all()


def test_scenes_follow_the_published_ranges() -> None:
    made = MultiDSprites(400, seed=4).many(np.arange(400))
    numbers = [len(sample.factors["shape"]) for sample in made]
    assert np.bincount(numbers)[:2].sum() == 0
    assert np.bincount(numbers)[2:].min() > 70  # 100 expected of each of 2, 3, 4 and 5
    assert {name for sample in made for name in sample.factors["shape"]} == {"square", "ellipse", "heart"}
    for sample, number in zip(made, numbers, strict=True):
        pixels = np.bincount(sample.labels.reshape(-1), minlength=number + 1)
        assert len(pixels) == number + 1
        assert pixels[1:].min() >= MIN_VISIBLE
        background = sample.image[sample.labels == 0]
        assert (background == background[0, 0]).all()  # one grey
        for k in range(number):
            shown = sample.image[sample.labels == k + 1]
            assert (shown == sample.factors["colour"][k]).all()
        assert (sample.factors["visibility"] == pixels[1:]).all()


def test_sprites_cover_one_another():
    covered = []
    for sample in MultiDSprites(100, seed=0).many(np.arange(100)):
        squares = sample.factors["shape"] == "square"
        whole = (20 * sample.factors["size"][squares]) ** 2
        covered.extend(sample.factors["visibility"][squares] < 0.9 * whole)
    assert 0.1 < np.mean(covered) < 0.6


@settings(max_examples=15)
@given(seed=st.integers(0, 2**40), indices=st.lists(st.integers(0, 10**9), min_size=1, max_size=5))
def test_a_sample_depends_on_seed_and_index_only(seed: int, indices: list[int]) -> None:
    images, labels = MultiDSprites(10**9 + 1, seed).gather(np.array(indices))
    for i, index in enumerate(indices):
        sample = MultiDSprites(index + 1, seed)[index]
        np.testing.assert_array_equal(sample.image, images[i])
        np.testing.assert_array_equal(sample.labels, labels[i])


def test_max_objects_limits_the_sprites() -> None:
    made = MultiDSprites(100, seed=0, max_objects=3).many(np.arange(100))
    assert {len(sample.factors["size"]) for sample in made} == {2, 3}


def test_colours_agree_with_matplotlib() -> None:
    hsv = np.random.default_rng(0).random((200, 3))
    np.testing.assert_allclose(hsv_to_rgb(hsv), matplotlib.colors.hsv_to_rgb(hsv), atol=1e-12)


def test_mistakes_are_named() -> None:
    with pytest.raises(ValueError, match="size 64, not 32"):
        MultiDSprites(10, seed=0, size=32)
    with pytest.raises(ValueError, match="max_objects of 2 to 10, not 1"):
        MultiDSprites(10, seed=0, max_objects=1)
    with pytest.raises(IndexError, match="-1 of 10"):
        MultiDSprites(10, seed=0)[-1]
