"""Models for images of any size."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import cocanet
from cocanet.presets.auto import choose, windows_for, working_size

SIZES = st.tuples(st.integers(1, 2000), st.integers(1, 2000))


@given(SIZES, st.integers(2, 16))
@settings(max_examples=60)
def test_every_size_gets_a_valid_model(size, slots):
    choice = choose(size, slots)
    model = choice.preset.model  # its own checks have passed: windows divide, the decoder's size fits
    assert model.slots == slots
    assert all(32 <= side <= 256 and side % 16 == 0 for side in model.image_size)
    # No window has so many nodes that their affinities would not fit: 1024² floats are 4 MB.
    clusters = [1, *(level.clusters for level in model.levels)]
    assert all(math.prod(level.window) * above <= 1024 for level, above in zip(model.levels, clusters, strict=False))
    assert choice.preset.data.resize == (model.image_size != size)


@given(st.integers(32, 256), st.integers(32, 256))
def test_sides_move_by_less_than_a_unit(height, width):
    assert all(abs(new - old) <= 8 for new, old in zip(working_size((height, width)), (height, width), strict=True))


def test_large_images_keep_their_shape():
    assert working_size((1000, 2000)) == (128, 256)
    assert working_size((4000, 3000)) == (256, 192)


def test_the_papers_sizes_get_the_papers_windows():
    assert windows_for((32, 32)) == [(4, 4), (8, 8)]
    assert windows_for((64, 64)) == [(8, 8), (8, 8)]
    assert windows_for((128, 128)) == [(4, 4), (4, 4), (8, 8)]


@pytest.mark.parametrize("size", [(32, 32), (48, 64), (96, 32), (256, 128)])
def test_chosen_models_take_a_step(size):
    model = cocanet.build(choose(size, 5).preset, seed=0)
    images = torch.rand(1, 3, *size)
    output = model(images)
    (output.reconstruction - images).square().mean().backward()
    assert output.encoder_masks.shape == (1, 5, *size)
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in model.parameters())


def test_too_few_or_too_many_slots_are_refused():
    for slots in (0, 1, 65):
        with pytest.raises(ValueError, match=f"slots must be 2 to 64; got {slots}"):
            choose((64, 64), slots)
