from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cocanet.data.generators.streams import pick, uniforms


@given(
    seed=st.integers(0, 2**64 - 1),
    samples=st.lists(st.integers(0, 2**62), min_size=1, max_size=8),
    first=st.integers(0, 1000),
)
def test_a_draw_depends_on_its_address_only(seed: int, samples: list[int], first: int) -> None:
    together = uniforms(seed, np.array(samples), first=first, draws=5)
    assert ((together >= 0) & (together < 1)).all()
    for row, sample in zip(together, samples, strict=True):
        alone = uniforms(seed, np.array([sample]), first=first + 2, draws=1)
        assert alone[0, 0] == row[2]


def test_draws_are_uniform_and_uncorrelated() -> None:
    u = uniforms(7, np.arange(20_000), first=0, draws=6)
    counts = np.stack([np.histogram(column, bins=20, range=(0, 1))[0] for column in u.T])
    chi_square = ((counts - 1000) ** 2 / 1000).sum(axis=1)
    assert chi_square.max() < 60  # 19 degrees of freedom: far beyond any reasonable chance
    between_draws = np.corrcoef(u.T) - np.eye(6)
    between_samples = np.corrcoef(u[:-1, 0], u[1:, 0])[0, 1]
    between_seeds = np.corrcoef(u[:, 0], uniforms(8, np.arange(20_000), first=0, draws=1)[:, 0])[0, 1]
    assert np.abs(between_draws).max() < 0.04
    assert abs(between_samples) < 0.04
    assert abs(between_seeds) < 0.04


def test_pick_stays_below_its_number_of_choices() -> None:
    top = np.array([0.0, 0.5, np.nextafter(1, 0)])
    assert pick(top, 7).tolist() == [0, 3, 6]
    assert pick(top, np.array([1, 2, 256])).tolist() == [0, 1, 255]
