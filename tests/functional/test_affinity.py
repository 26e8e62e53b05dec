import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

from cocanet.functional.affinity import FLOOR, Points, affinity, clamp_straight_through, distance_scale, distances
from tests.reference import equations


@pytest.fixture
def features():
    return torch.randn(3, 12, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_agrees_with_the_equations(features):
    scale = distance_scale(2.0, (4, 3), 8)
    ours = affinity(distances(Points.of(features), Points.of(features), scale))
    for window, expected in zip(ours, features, strict=True):
        reference = equations.affinity(equations.distances(expected.numpy(), 2.0, 12))
        np.testing.assert_allclose(window.numpy(), reference, atol=1e-9)


def test_rows_are_rows_of_the_whole(features):
    every = affinity(distances(Points.of(features), Points.of(features), 1.0))
    points = Points.of(features)
    some = affinity(distances(points.take(torch.tensor([[5, 0]] * 3)), points, 1.0))
    torch.testing.assert_close(some, every[:, [5, 0]])


def test_each_node_is_most_akin_to_itself(features):
    masks = affinity(distances(Points.of(features), Points.of(features), 1.0))
    assert torch.allclose(masks.diagonal(dim1=-2, dim2=-1), torch.tensor(1 - FLOOR, dtype=torch.float64))
    assert torch.allclose(masks.amin(-1), torch.tensor(FLOOR, dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_features_are_fully_akin_with_finite_gradient(dtype):
    features = torch.randn(1, 8, dtype=dtype).expand(16, 8).clone().requires_grad_()
    masks = affinity(distances(Points.of(features), Points.of(features), 1.0))
    assert (masks == 1 - FLOOR).all()
    masks.sum().backward()
    assert features.grad.isfinite().all()


def test_nearly_equal_features_have_finite_gradient():
    features = (torch.ones(16, 8) + 1e-4 * torch.randn(16, 8)).requires_grad_()
    affinity(distances(Points.of(features), Points.of(features), 1.0)).square().sum().backward()
    assert features.grad.isfinite().all()


def test_huge_distances_do_not_overflow():
    far = torch.tensor([[0.0, 1.0, 1e4]], requires_grad=True)
    masks = affinity(far)
    torch.testing.assert_close(masks, torch.tensor([[1 - FLOOR, float(np.exp(-1)), FLOOR]]))
    masks.sum().backward()
    assert far.grad.isfinite().all()


def test_gradient(features):
    small = (0.3 * features[:1, :5]).requires_grad_()

    def rows(x):
        points = Points.of(x)
        return affinity(distances(points.take(torch.tensor([[1, 3]])), points, 1.0))

    # Where the clamp acts the gradient is straight-through on purpose, which finite differences do not see.
    free = ((rows(small) > 2 * FLOOR) & (rows(small) < 1 - 2 * FLOOR)).detach()
    assert free.sum() == 6
    assert gradcheck(lambda x: rows(x)[free], small)


def test_clamp_passes_the_gradient_through():
    x = torch.tensor([-1.0, 0.5, 2.0], requires_grad=True)
    y = clamp_straight_through(x)
    torch.testing.assert_close(y, torch.tensor([FLOOR, 0.5, 1 - FLOOR]))
    y.sum().backward()
    assert x.grad.tolist() == [1, 1, 1]
