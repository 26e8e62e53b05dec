"""What only a hierarchy of several levels can get wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import cocanet
from tests.reference import equations
from tests.tiny import DEEP, FLAT, THREE, images, small


@pytest.mark.parametrize("config", [small(), THREE, DEEP], ids=["two", "three", "four"])
def test_each_level_adds_what_went_into_the_level_below(config):
    """Level 3 the clusters of level 1, level 4 those of level 2: before they were refined, under both levels' masks."""
    model, x = cocanet.build(config, seed=0).eval(), images(config)
    with torch.no_grad():
        found = model(x).levels
        outputs = [model.backbone(x).unsqueeze(3)]
        for level in found[:-1]:
            grid = [cells // side for cells, side in zip(level.grid, level.window, strict=True)]
            outputs.append(level.clusters.features.unflatten(1, grid))
        for number in range(1, len(found)):
            below, here = found[number - 1], found[number]
            means = [
                equations.skip_means(
                    *(part[index].numpy() for part in (outputs[number - 1], below.clusters.masks, here.clusters.masks)),
                    below.window,
                    here.window,
                )
                for index in range(len(x))
            ]
            module = model.hierarchy.levels[number]
            mean = module.norm(torch.from_numpy(np.stack(means)).float())
            skipped = module.norm(mean + module.skip(mean))
            own = module.coca._pool(here.clusters.nodes, module.coca.norm(here.clusters.nodes), here.clusters.masks)
            torch.testing.assert_close(here.clusters.features, own + skipped, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("config", [FLAT, small(), DEEP], ids=["one", "two", "four"])
def test_random_anchors_are_drawn_on_every_level(config):
    """RAS: all scores are the next uniform numbers, none the compactness of anything."""
    model = cocanet.build(replace(config, anchors="random"), seed=0).eval()
    torch.manual_seed(3)
    found = [level.clusters for level in model(images(config)).levels]
    torch.manual_seed(3)
    for clusters in found:
        assert torch.equal(clusters.compactness, torch.rand(clusters.compactness.shape))
        assert torch.equal(clusters.anchors[..., 0], clusters.compactness.argmax(-1))
