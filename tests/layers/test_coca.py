import pytest
import torch

from cocanet.functional.geometry import Geometry, pixel_geometry
from cocanet.layers import coca
from cocanet.layers.coca import CocaLayer


def pixels(height: int, width: int) -> Geometry:
    geometry = pixel_geometry(height, width)
    return Geometry(*(x.flatten()[None, None] for x in geometry[:3]), geometry.position.flatten(0, 1)[None, None])


def layer(clusters: int = 3, **options) -> CocaLayer:
    torch.manual_seed(0)
    return CocaLayer(16, (4, 4), 1, clusters, 1.0, **options)


def test_masks_sum_to_one_and_anchors_lead_their_clusters():
    nodes = torch.randn(2, 5, 16, 16)
    found = layer()(nodes, pixels(4, 4))
    torch.testing.assert_close(found.masks.sum(2), torch.ones(2, 5, 16), atol=1e-6, rtol=0)
    assert found.features.shape == (2, 5, 3, 16)
    first = found.masks[:, :, 0].gather(-1, found.anchors[..., :1])
    assert (first > 0.999).all()
    assert torch.equal(found.anchors[..., 0], found.compactness.argmax(-1))


def test_scoring_in_pieces_changes_nothing(monkeypatch):
    nodes = torch.randn(2, 5, 16, 16)
    whole = layer()(nodes, pixels(4, 4))
    monkeypatch.setitem(coca.CHUNK, "cpu", 1)
    pieces = layer()(nodes, pixels(4, 4))
    torch.testing.assert_close(pieces.compactness, whole.compactness)
    assert torch.equal(pieces.anchors, whole.anchors)


def test_random_anchors_follow_the_seed_and_differ():
    nodes, random = torch.randn(4, 6, 16, 16), layer(anchors="random")
    torch.manual_seed(1)
    first = random(nodes, pixels(4, 4)).anchors
    torch.manual_seed(1)
    assert torch.equal(random(nodes, pixels(4, 4)).anchors, first)
    assert not torch.equal(random(nodes, pixels(4, 4)).anchors, first)
    assert first[..., 0].unique().numel() > 8


def test_dilated_candidates_are_the_only_anchors():
    found = layer(candidate_stride=2)(torch.randn(2, 5, 16, 16), pixels(4, 4))
    assert found.compactness.shape == (2, 5, 4)
    assert set(found.anchors.unique().tolist()) <= {0, 2, 8, 10}


@pytest.mark.parametrize("clusters", [1, 3, 16])
def test_equal_features_give_finite_values_and_gradients(clusters):
    nodes = torch.randn(1, 1, 1, 16).expand(2, 5, 16, 16).clone().requires_grad_()
    module = layer(clusters)
    found = module(nodes, pixels(4, 4))
    found.features.square().sum().backward()
    assert all(x.isfinite().all() for x in (found.features, found.masks, nodes.grad, *found.geometry))


def test_clusters_without_mass_are_finite():
    module = layer(clusters=2)
    nodes = torch.randn(2, 5, 16, 16, requires_grad=True)
    found = module(nodes, pixels(4, 4), clusters=12, scope_threshold=0.3)
    assert (~found.in_use).any()
    assert (found.masks[~found.in_use] == 0).all()
    found.features.square().sum().backward()
    assert nodes.grad.isfinite().all()
    assert all(x.isfinite().all() for x in found.geometry)


def test_a_window_of_one_pixel():
    torch.manual_seed(0)
    module = CocaLayer(16, (1, 1), 1, 1, 1.0)
    nodes = torch.randn(2, 9, 1, 16, requires_grad=True)
    geometry = Geometry(
        *(x.expand(2, 9, 1) for x in (torch.ones(1), torch.ones(1), torch.ones(1) / 6)), torch.rand(2, 9, 1, 2)
    )
    found = module(nodes, geometry)
    assert (found.masks == 1).all()
    found.features.sum().backward()
    assert nodes.grad.isfinite().all()


def test_another_temperature_is_that_of_a_layer_with_it():
    nodes = torch.randn(1, 2, 16, 16)
    plain, hot = layer(), CocaLayer(16, (4, 4), 1, 3, 3.0)
    hot.load_state_dict(plain.state_dict())
    expected = hot(nodes, pixels(4, 4)).masks
    assert torch.equal(plain(nodes, pixels(4, 4), temperature=3.0).masks, expected)
    assert not torch.allclose(plain(nodes, pixels(4, 4)).masks, expected, atol=1e-3)
