import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cocanet.functional.compactness import compactness, minimum_pair_sum, sort_by_density
from cocanet.functional.geometry import Geometry, pixel_geometry, pool_geometry
from tests.functional.scenes import as_nodes, random_geometry
from tests.reference import equations


def pixels(height: int, width: int) -> Geometry:
    geometry = pixel_geometry(height, width)
    return Geometry(*(x.double().flatten() for x in geometry[:3]), geometry.position.double().flatten(0, 1))


def score(mask: np.ndarray, centre: tuple[float, float]) -> float:
    nodes = pixels(*mask.shape)
    return float(compactness(torch.tensor(mask).double().view(1, -1), nodes, torch.tensor([centre]).double()))


def disc(side: int, radius: float) -> np.ndarray:
    rows, columns = np.mgrid[:side, :side] - side // 2
    return (rows**2 + columns**2 <= radius**2).astype(float)


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_the_equation_on_random_geometry(seed):
    geometry = random_geometry(14, seed)
    masks = torch.rand(6, 14, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    centres = geometry.position[:6]
    ours = compactness(masks, geometry, centres)
    expected = [
        equations.compactness(mask.numpy(), as_nodes(geometry), *centre.tolist())
        for mask, centre in zip(masks, centres, strict=True)
    ]
    np.testing.assert_allclose(ours.numpy(), expected, rtol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_pair_sum_is_the_double_sum_even_with_ties(dtype):
    generator = torch.Generator().manual_seed(1)
    density = torch.randint(0, 4, (7, 20), generator=generator).to(dtype) / 4
    area = torch.rand(7, 20, dtype=dtype, generator=generator)
    pairs = torch.minimum(density[:, :, None], density[:, None]) * area[:, :, None] * area[:, None]
    torch.testing.assert_close(minimum_pair_sum(density, area), pairs.sum((1, 2)))


def test_both_sorts_agree():
    generator = torch.Generator().manual_seed(2)
    density, area = torch.rand(9, 33, generator=generator), torch.rand(9, 33, generator=generator)
    packed = sort_by_density(density, area)
    plain = sort_by_density(density.double(), area.double())
    for ours, expected in zip(packed, plain, strict=True):
        assert torch.equal(ours.double(), expected)


@settings(deadline=None)
@given(hnp.arrays(np.float64, (5, 6), elements=st.floats(1e-5, 1 - 1e-5)), st.integers(0, 4), st.integers(0, 5))
def test_lies_in_the_unit_interval_for_any_mask_of_pixels(mask, row, column):
    assert 0 < score(mask, (row, column)) <= 1


def test_above_the_first_level_it_can_pass_one_but_not_by_far():
    # A cluster enters the next level with its mean density, so a dense core in a faint halo looks denser than it is.
    # The worst mask that gradient ascent finds in a window of 9×9 pixels scores 1.18; with the window the worst case
    # grows slowly, to 1.28 at 17×17 and 1.44 at 65×65. Masks that a network makes are far from it.
    offsets = (pixels(9, 9).position - 4).square().sum(-1)
    logits = torch.where(offsets <= 2, 3.0, -3.0).double().requires_grad_()
    optimiser = torch.optim.Adam([logits], 0.05)
    for _ in range(600):
        mask = logits.sigmoid()
        inertia = (mask / 6 + mask.square() * offsets).sum()
        optimiser.zero_grad()
        (-mask.sum() * mask.square().sum() / inertia).backward()
        optimiser.step()
    worst = pool_geometry(logits.sigmoid().unsqueeze(0), pixels(9, 9))
    again = compactness(torch.ones(1, 1, dtype=torch.float64), worst, worst.position)
    assert 1.1 < float(again) < 1.2


def of_a_rectangle(height: int, width: int, affinity: float = 1.0) -> float:
    """Pixels that belong to one mask equally, about their centre: p³n² over 2π(pn/6 + p²n(h² + w² − 2)/12)."""
    spread = (height**2 + width**2 - 2) / 12
    return affinity**2 * height * width / (2 * math.pi * (1 / 6 + affinity * spread))


@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 7), (3, 5), (8, 8)])
@pytest.mark.parametrize("affinity", [1.0, 0.4, 0.01])
def test_of_a_rectangle_it_is_a_formula(height, width, affinity):
    centre = ((height - 1) / 2, (width - 1) / 2)
    expected = of_a_rectangle(height, width, affinity)
    assert score(np.full((height, width), affinity), centre) == pytest.approx(expected, rel=1e-6)
    if affinity == 1:
        assert expected == pytest.approx(6 * height * width / (math.pi * (height**2 + width**2)))


@pytest.mark.parametrize("cuts", [1, 2, 4])
def test_above_the_first_level_the_pieces_of_a_rectangle_score_as_the_whole(cuts):
    """Hard masks lose nothing by pooling: not their area, and by the parallel-axis theorem not their spread."""
    rows = torch.arange(8).repeat_interleave(6) // (8 // cuts)
    pieces = pool_geometry(torch.nn.functional.one_hot(rows).T.double(), pixels(8, 6))
    whole = compactness(torch.ones(1, cuts, dtype=torch.float64), pieces, torch.tensor([[3.5, 2.5]]).double())
    assert float(whole) == pytest.approx(of_a_rectangle(8, 6), rel=1e-6)
    alone = compactness(torch.eye(cuts, dtype=torch.float64), pieces, pieces.position)
    np.testing.assert_allclose(alone.numpy(), of_a_rectangle(8 // cuts, 6), rtol=1e-6)


def test_a_disc_scores_one_a_ring_what_its_hole_leaves_and_noise_its_share():
    """(R² − r²) / (R² + r²) for a ring; of a square, 3/π, as much as noise has of it."""
    assert score(disc(33, 12), (16, 16)) == pytest.approx(1, abs=0.005)
    ring = score(disc(33, 12) - disc(33, 9), (16, 16))
    assert ring == pytest.approx((12**2 - 9**2) / (12**2 + 9**2), abs=0.02)
    noise = (np.random.default_rng(0).random((33, 33)) < 0.4).astype(float)
    assert score(noise, (16, 16)) == pytest.approx(noise.mean() * 3 / math.pi, rel=0.03)


def test_is_independent_of_scale_and_place():
    small, large = score(disc(33, 6), (16, 16)), score(disc(129, 48), (64, 64))
    assert abs(small - large) < 0.03
    moved = np.roll(disc(33, 6), (5, -4), (0, 1))
    assert score(moved, (21, 12)) == pytest.approx(small)


def test_peaks_at_the_centroid():
    mask = disc(17, 5)
    scores = {(r, c): score(mask, (r, c)) for r in range(17) for c in range(17)}
    assert max(scores, key=scores.__getitem__) == (8, 8)
