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


@pytest.mark.parametrize("seed", range(20))
def test_above_the_first_level_random_masks_stay_below_one(seed):
    generator = torch.Generator().manual_seed(seed)
    sharpness = 10 ** (3 * torch.rand(1, generator=generator).item() - 1)
    logits = sharpness * torch.randn(4, 6, 64, dtype=torch.float64, generator=generator)
    level = pool_geometry(logits.softmax(1), pixels(8, 8))
    masks = torch.rand(4, 50, 6, dtype=torch.float64, generator=generator).clamp(1e-5, 1 - 1e-5)
    scores = compactness(masks, level, level.position.mean(1, keepdim=True).expand(-1, 50, -1))
    assert scores.min() > 0
    assert scores.max() <= 1


def test_a_disc_is_compact_and_a_ring_and_noise_are_not():
    full = score(disc(33, 12), (16, 16))
    ring = score(disc(33, 12) - disc(33, 9), (16, 16))
    noise = score((np.random.default_rng(0).random((33, 33)) < 0.4).astype(float), (16, 16))
    assert full > 0.95
    assert ring < 0.6
    assert noise < 0.5


def test_is_independent_of_scale_and_place():
    small, large = score(disc(33, 6), (16, 16)), score(disc(129, 48), (64, 64))
    assert abs(small - large) < 0.03
    moved = np.roll(disc(33, 6), (5, -4), (0, 1))
    assert score(moved, (21, 12)) == pytest.approx(small)


def test_peaks_at_the_centroid():
    mask = disc(17, 5)
    scores = {(r, c): score(mask, (r, c)) for r in range(17) for c in range(17)}
    assert max(scores, key=scores.__getitem__) == (8, 8)
