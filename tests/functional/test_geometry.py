import numpy as np
import pytest
import torch

from cocanet.functional.geometry import Geometry, pixel_geometry, pool_geometry
from cocanet.functional.pixels import PIXEL_INERTIA
from tests.functional.scenes import as_nodes, random_geometry
from tests.reference import equations


@pytest.mark.parametrize("rule", ["parallel-axis", "printed", "released"])
@pytest.mark.parametrize("seed", range(3))
def test_agrees_with_the_equations(seed, rule):
    geometry = random_geometry(10, seed)
    masks = torch.rand(4, 10, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    ours = pool_geometry(masks, geometry, rule)
    for k in range(4):
        node = equations.pool_geometry(masks[k].numpy(), as_nodes(geometry), rule)
        expected = (node.area, node.density, node.inertia, node.row, node.column)
        found = (*(float(x[k]) for x in ours[:3]), *ours.position[k].tolist())
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_the_three_readings_of_inertia():
    """A row of five pixels of density 1: ΣI is 5/6, and the parallel-axis term Σx² is 10."""
    pixels = pixel_geometry(1, 5, dtype=torch.float64)
    nodes = Geometry(*(x.flatten() for x in pixels[:3]), pixels.position.flatten(0, 1))
    faint = nodes._replace(density=torch.full((5,), 0.5, dtype=torch.float64))
    ones = torch.ones(1, 5, dtype=torch.float64)
    for rule, of_full, of_faint in (
        ("printed", 5 / 6, 5 / 6),
        ("released", 5 / 6 + 10, 0.5 * (5 / 6) + 5),
        ("parallel-axis", 5 / 6 + 10, 5 / 6 + 5),
    ):
        assert pool_geometry(ones, nodes, rule).inertia.item() == pytest.approx(of_full), rule
        assert pool_geometry(ones, faint, rule).inertia.item() == pytest.approx(of_faint), rule


def test_a_block_of_pixels_has_the_inertia_of_a_rectangle():
    pixels = pixel_geometry(6, 4)
    nodes = Geometry(*(x.flatten() for x in pixels[:3]), pixels.position.flatten(0, 1))
    block = pool_geometry(torch.ones(1, 24), nodes)
    assert float(block.inertia) == pytest.approx(24 * (6**2 + 4**2) / 12)
    assert pytest.approx(1 / 6) == PIXEL_INERTIA
    torch.testing.assert_close(block.position, torch.tensor([[2.5, 1.5]]))


@pytest.mark.parametrize("faint", [1e-6, 1e-20])
def test_a_cluster_without_mass_lies_where_its_mask_lies(faint):
    pixels = pixel_geometry(1, 8)
    nodes = Geometry(*(x.flatten() for x in pixels[:3]), pixels.position.flatten(0, 1))
    mask = torch.zeros(1, 8)
    mask[0, 6] = faint
    found = pool_geometry(mask, nodes)
    expected = 6.0 if faint > 1e-8 else 3.5
    assert found.position[0, 1] == pytest.approx(expected, abs=1e-3)
    assert all(x.isfinite().all() for x in found)


def test_an_empty_cluster_lies_in_the_middle_of_its_window():
    pixels = pixel_geometry(3, 5)
    nodes = Geometry(*(x.flatten() for x in pixels[:3]), pixels.position.flatten(0, 1))
    found = pool_geometry(torch.zeros(1, 15), nodes)
    torch.testing.assert_close(found.position, torch.tensor([[1.0, 2.0]]))
    assert float(found.area) == float(found.inertia) == 0
