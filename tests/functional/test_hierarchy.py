import numpy as np
import torch

from cocanet.functional.hierarchy import merge_masks
from tests.reference import equations


def random_masks(*shape: int, seed: int) -> torch.Tensor:
    logits = torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return logits.softmax(-2)


def test_two_levels_agree_with_a_loop_over_pixels():
    lower, upper = random_masks(2, 6, 3, 4, seed=0), random_masks(2, 1, 5, 18, seed=1)
    merged = merge_masks([lower, upper], [(2, 2), (2, 3)], (4, 6))
    assert merged.shape == (2, 1, 5, 4, 6)
    for image in range(2):
        expected = equations.merge_two_levels(lower[image].numpy(), upper[image, 0].numpy(), (2, 2), (2, 3))
        np.testing.assert_allclose(merged[image, 0].numpy(), expected, atol=1e-12)


def test_any_number_of_levels_sums_to_one():
    windows = [(2, 1), (1, 2), (2, 2), (1, 1)]
    shapes = [(8, 2, 2), (4, 3, 4), (1, 2, 12), (1, 2, 2)]
    masks = [random_masks(1, *shape, seed=seed) for seed, shape in enumerate(shapes)]
    for levels in range(1, 5):
        merged = merge_masks(masks[:levels], windows[:levels], (4, 4))
        torch.testing.assert_close(merged.sum(2), torch.ones_like(merged[:, :, 0]))
    assert merged.shape == (1, 1, 2, 4, 4)


def test_three_levels_are_two_merged_twice():
    masks = [random_masks(1, *shape, seed=seed) for seed, shape in enumerate([(16, 2, 4), (4, 3, 8), (1, 5, 12)])]
    whole = merge_masks(masks, [(2, 2)] * 3, (8, 8))
    lower = merge_masks(masks[:2], [(2, 2)] * 2, (8, 8)).flatten(3)
    torch.testing.assert_close(whole, merge_masks([lower, masks[2]], [(4, 4), (2, 2)], (8, 8)))
