"""The two kinds of encoder masks."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from cocanet.models.baselines.attention_masks import enlarge, stretch
from tests.models.baselines import rivals


def attention(config, seed: int = 0) -> torch.Tensor:
    cells = config.grid[0] * config.grid[1]
    return (3 * torch.randn(2, 3, cells, generator=torch.Generator().manual_seed(seed))).softmax(1)


@pytest.mark.parametrize("grid", [(4, 2), (16, 8)])
def test_enlarged_maps_are_interpolated_between_cell_centres(grid):
    maps = torch.rand(1, 1, grid[0] * grid[1])
    out = enlarge(maps, grid, (16, 8))[0, 0]
    cells = maps.view(grid)
    for row in range(16):
        for column in range(8):
            expected = 0.0
            for i in range(grid[0]):
                for j in range(grid[1]):
                    y = min(max((row + 0.5) * grid[0] / 16 - 0.5, 0), grid[0] - 1)
                    x = min(max((column + 0.5) * grid[1] / 8 - 0.5, 0), grid[1] - 1)
                    expected += max(0, 1 - abs(y - i)) * max(0, 1 - abs(x - j)) * cells[i, j].item()
            assert abs(out[row, column].item() - expected) < 1e-5


def upsampled(maps: torch.Tensor, config) -> torch.Tensor:
    return F.interpolate(maps.unflatten(-1, config.grid), config.image_size, mode="bilinear", align_corners=False)


@pytest.mark.parametrize("name", ["slot-attention", "bo-qsa", "inv-sa"])
def test_paper_masks_are_those_of_attention_normalised_over_positions(name):
    config = replace(rivals.ALL[name], encoder_masks="paper")
    model, a = rivals.make(config), attention(config)
    if name == "inv-sa":
        expected = upsampled(a / (a.sum(-1, keepdim=True) + 1e-8), config)
    else:
        normalised = (a + 1e-8) / (a + 1e-8).sum(-1, keepdim=True)
        maps = upsampled(normalised, config)
        low, high = maps.flatten(2).min(-1).values, maps.flatten(2).max(-1).values
        expected = (maps - low[..., None, None]) / (high - low)[..., None, None]
        expected = expected.softmax(1) if name == "bo-qsa" else expected
    torch.testing.assert_close(model.encoder_masks(a), expected, atol=1e-5, rtol=1e-5)
    plain = rivals.make(rivals.ALL[name])
    torch.testing.assert_close(plain.encoder_masks(a), upsampled(a, config), atol=1e-5, rtol=1e-5)


def test_the_papers_masks_of_inv_sa_favour_slots_that_won_little():
    config = rivals.inv_sa()
    model, paper = rivals.make(config), rivals.make(replace(config, encoder_masks="paper"))
    a = torch.tensor([0.95, 0.03, 0.02]).view(1, 3, 1).repeat(1, 1, 32)
    a[0, :, 0] = torch.tensor([0.6, 0.3, 0.1])
    assert (model.encoder_masks(a).argmax(1) == 0).all()
    assert paper.encoder_masks(a).argmax(1)[0, 0, 0] == 1


@pytest.mark.parametrize("name", ["slot-attention", "bo-qsa", "inv-sa"])
def test_the_configuration_chooses_the_masks(name):
    config = rivals.ALL[name]
    model, paper = rivals.make(config).eval(), rivals.make(replace(config, encoder_masks="paper")).eval()
    x = rivals.images(config)
    assert torch.equal(model(x).mixture, paper(x).mixture)
    assert not torch.allclose(model(x).encoder_masks, paper(x).encoder_masks)


def test_a_flat_mask_is_stretched_to_nothing_instead_of_nan():
    masks = torch.full((1, 2, 2, 2), 0.25)
    masks[0, 1, 0, 0] = 0.75
    assert stretch(masks).tolist() == [[[[0, 0], [0, 0]], [[1, 0], [0, 0]]]]
