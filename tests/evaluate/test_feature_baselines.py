"""Baselines of features: regions that everybody must find, and the normalised cut by its definition."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score

from cocanet.data.colour_clusters import kmeans, nearest
from cocanet.evaluate.feature_baselines import (
    ALIKE,
    UNLIKE,
    clusters,
    feature_methods,
    grid_edges,
    on_grid,
    token_cut,
    ward,
)


def regions(noise: float = 0.05) -> tuple[torch.Tensor, torch.Tensor]:
    """Two images of 8×8 cells with an object of 4×4 cells, each with features of its own."""
    draw = torch.Generator().manual_seed(0)
    labels = torch.zeros(2, 8, 8, dtype=torch.int64)
    labels[0, 2:6, 2:6], labels[1, 0:4, 4:8] = 1, 1
    kinds = torch.eye(6)[:2]
    return labels, kinds[labels] + noise * torch.randn(2, 8, 8, 6, generator=draw)


@pytest.mark.parametrize("find", [lambda x: clusters(x, 2), lambda x: ward(x, 2), token_cut])
def test_clear_regions_are_found(find):
    labels, features = regions()
    found = find(features)
    found = found.repeat_interleave(8 // found.shape[1], 1).repeat_interleave(8 // found.shape[2], 2)
    for one, other in zip(labels, found, strict=True):
        assert adjusted_rand_score(one.ravel(), other.ravel()) == 1
    if find is token_cut:
        assert torch.equal(found, labels), "the object is 1"


def test_the_cut_is_the_second_smallest_generalised_eigenvector():
    _, features = regions(noise=0.6)
    cells = features.view(2, 4, 2, 4, 2, 6).mean((2, 4)).flatten(1, 2).double().numpy()
    for image, found in zip(cells, token_cut(features), strict=True):
        unit = image / np.linalg.norm(image, axis=1, keepdims=True)
        weights = np.where(unit @ unit.T > ALIKE, 1.0, UNLIKE)
        scale = np.diag(weights.sum(1) ** -0.5)
        _, vectors = np.linalg.eigh(np.eye(16) - scale @ weights @ scale)
        vector = scale @ vectors[:, 1]
        side = vector > vector.mean()
        assert (found.numpy().ravel() == (side if side[np.abs(vector).argmax()] else ~side)).all()


def test_neighbours_are_those_that_touch():
    edges = grid_edges(2, 3).toarray()
    expected = np.zeros((6, 6))
    for one, other in ((0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)):
        expected[one, other] = expected[other, one] = 1
    assert (edges == expected).all()


class Given(torch.nn.Module):
    """Features that do not depend on the images."""

    def __init__(self, features: torch.Tensor) -> None:
        super().__init__()
        self.features, self.calls = features, 0

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.features[: len(images)]


def test_masks_are_enlarged_as_a_models_are():
    labels, features = regions()
    segment = on_grid(lambda images: features, lambda x: labels)
    assert torch.equal(segment(torch.zeros(2, 3, 8, 8)), labels)
    assert segment(torch.zeros(2, 3, 32, 32)).shape == (2, 32, 32)


def test_centres_over_the_data_set_are_the_same_for_all_images():
    labels, features = regions()
    given, batch = Given(features), torch.zeros(2, 3, 8, 8)
    methods = {method.name: method for method in feature_methods(given, 2, batch)}
    found = methods["dataset2"].segment(batch)
    centres = kmeans(features.flatten(0, 2).unsqueeze(0), 2).expand(2, -1, -1)
    assert torch.equal(found, nearest(features.flatten(1, 2), centres).view(2, 8, 8))
    assert torch.equal(found == found[0, 3, 3], labels == 1)
    before = given.calls
    for method in methods.values():
        method.segment(batch)
    assert given.calls == before, "the features of a batch are computed once for all methods"
