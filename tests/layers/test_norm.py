import pytest
import torch
from torch import nn
from torch.autograd import gradcheck

from cocanet.layers.norm import GroupNorm, group_norm


def test_per_node_is_torch_group_norm_of_each_node():
    x = torch.randn(2, 3, 5, 16)
    expected = nn.functional.group_norm(x.view(-1, 16), 4, eps=1e-3).view_as(x)
    torch.testing.assert_close(GroupNorm(16)(x), expected)


def test_per_image_is_torch_group_norm_over_all_nodes():
    x = torch.randn(2, 3, 5, 16)
    expected = torch.stack(
        [nn.functional.group_norm(image.reshape(1, -1, 16).mT, 4, eps=1e-3).mT.view(3, 5, 16) for image in x]
    )
    torch.testing.assert_close(GroupNorm(16, "image")(x), expected)


def test_gradient():
    x = torch.randn(1, 3, 8, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda z: group_norm(z, 4, 1e-3), x)


def test_groups_must_divide_the_features():
    with pytest.raises(ValueError, match="10 features cannot be normalised in 4"):
        GroupNorm(10)
