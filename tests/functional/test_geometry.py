import numpy as np
import pytest
import torch

from cocanet.functional.geometry import Geometry, pixel_geometry, pool_geometry
from cocanet.functional.pixels import PIXEL_INERTIA
from tests.functional.scenes import as_nodes, random_geometry
from tests.reference import equations


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_the_equations(seed):
    geometry = random_geometry(10, seed)
    masks = torch.rand(4, 10, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    ours = pool_geometry(masks, geometry)
    for k in range(4):
        node = equations.pool_geometry(masks[k].numpy(), as_nodes(geometry))
        expected = (node.area, node.density, node.inertia, node.row, node.column)
        found = (*(float(x[k]) for x in ours[:3]), *ours.position[k].tolist())
        np.testing.assert_allclose(found, expected, rtol=1e-9)


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
