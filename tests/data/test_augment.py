from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cocanet.data.augment import crop_offsets, pad_and_crop


@settings(max_examples=30)
@given(
    size=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    pad=st.integers(0, 4),
    batch=st.integers(0, 4),
    seed=st.integers(0, 1000),
)
def test_agrees_with_numpy_padding_and_slicing(size: tuple[int, int], pad: int, batch: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    height, width = size
    images = rng.integers(0, 256, (batch, height, width, 3), dtype=np.uint8)
    offsets = rng.integers(0, 2 * pad + 1, (batch, 2))
    found = pad_and_crop(torch.from_numpy(images), torch.from_numpy(offsets), pad)
    labels = pad_and_crop(torch.from_numpy(images[..., 0].copy()), torch.from_numpy(offsets), pad)
    padded = np.pad(images, ((0, 0), (pad, pad), (pad, pad), (0, 0)), mode="edge")
    for i, (top, left) in enumerate(offsets):
        expected = padded[i, top : top + height, left : left + width]
        np.testing.assert_array_equal(found[i].numpy(), expected)
        np.testing.assert_array_equal(labels[i].numpy(), expected[..., 0])


def test_the_middle_offset_changes_nothing() -> None:
    images = torch.rand(2, 8, 8, 3)
    torch.testing.assert_close(pad_and_crop(images, torch.full((2, 2), 3), 3), images, rtol=0, atol=0)


def test_offsets_are_fresh_uniform_and_seeded() -> None:
    offsets = crop_offsets(5, np.arange(7000), pad=3)
    assert offsets.shape == (7000, 2)
    for axis in range(2):
        counts = torch.bincount(offsets[:, axis], minlength=7)
        assert len(counts) == 7
        assert counts.min() > 880
        assert counts.max() < 1120
    torch.testing.assert_close(crop_offsets(5, np.array([6999, 12]), pad=3), offsets[[6999, 12]])
    assert not torch.equal(crop_offsets(6, np.arange(7000), pad=3), offsets)


@pytest.mark.parametrize("pad", [0, 1])
def test_offsets_stay_within_the_padding(pad: int) -> None:
    assert crop_offsets(0, np.arange(500), pad=pad).unique().tolist() == list(range(2 * pad + 1))
