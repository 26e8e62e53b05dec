import numpy as np
import torch
from torch.autograd import gradcheck

from cocanet.functional.pooling import pool, pool_again
from tests.reference import equations


def double(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_agrees_with_the_equation():
    masks, features = double(3, 7), double(7, 5, seed=1)
    ours = pool(masks, features).mean()
    for k in range(3):
        np.testing.assert_allclose(
            ours[k].numpy(), equations.pool_features(masks[k].numpy(), features.numpy()), rtol=1e-9
        )


def test_pooling_again_is_pooling_under_merged_masks():
    lower, upper, features = double(4, 9), double(2, 4, seed=1), double(9, 5, seed=2)
    merged = upper @ lower
    torch.testing.assert_close(pool_again(upper, pool(lower, features)).mean(), pool(merged, features).mean())


def test_an_empty_cluster_is_finite():
    masks = torch.zeros(2, 4, requires_grad=True)
    mean = pool(masks, torch.ones(4, 3)).mean()
    assert (mean == 0).all()
    mean.sum().backward()
    assert masks.grad.isfinite().all()


def test_gradient():
    masks, features = double(2, 4).requires_grad_(), double(4, 3, seed=1).requires_grad_()
    assert gradcheck(lambda m, x: pool(m, x).mean(), (masks, features))
