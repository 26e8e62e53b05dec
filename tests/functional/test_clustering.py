import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from cocanet.config.windows import dilated_candidates
from cocanet.functional.clustering import break_stick, choose_anchors, clusters_in_use
from tests.reference import equations


def random_problem(seed: int, nodes: int = 12):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.rand(nodes, dtype=torch.float64, generator=generator)
    affinities = torch.rand(nodes, nodes, dtype=torch.float64, generator=generator).clamp(1e-5, 1 - 1e-5)
    return scores, affinities


def run(scores, affinities, count, scope_threshold=0.0):
    anchors = choose_anchors(scores, torch.arange(len(scores)), lambda index: affinities[index], count, scope_threshold)
    return anchors, break_stick(affinities[anchors.nodes], anchors.wanted)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("count", [0, 1, 4, 11])
def test_fixed_count_agrees_with_the_algorithm(seed, count):
    scores, affinities = random_problem(seed)
    anchors, masks = run(scores, affinities, count)
    chosen, expected = equations.cluster(scores.numpy(), affinities.numpy(), count)
    assert anchors.nodes.tolist() == chosen
    np.testing.assert_allclose(masks.numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_early_stop_agrees_with_the_algorithm_and_pads(seed):
    scores, affinities = random_problem(seed)
    anchors, masks = run(scores, affinities, 10, scope_threshold=0.2)
    chosen, expected = equations.cluster(scores.numpy(), affinities.numpy(), 10, scope_threshold=0.2)
    used = clusters_in_use(anchors.wanted)
    assert 1 < len(expected) < 11
    assert used.tolist() == [True] * len(expected) + [False] * (11 - len(expected))
    assert anchors.nodes[: len(chosen)].tolist() == chosen
    np.testing.assert_allclose(masks[used].numpy(), expected, atol=1e-12)
    assert (masks[~used] == 0).all()


def test_a_scope_of_exactly_the_threshold_goes_on():
    """Each anchor halves the scope: 1, 1/2, 1/4, ..."""
    affinities = torch.full((8, 8), 0.5)
    for threshold, wanted in ((0.25, 3), (0.250001, 2), (0.5, 2), (0.500001, 1)):
        anchors, _ = run(torch.ones(8), affinities, 5, scope_threshold=threshold)
        assert int(anchors.wanted.sum()) == wanted, threshold


@given(st.integers(1, 9), st.integers(0, 6), st.floats(0, 0.9), st.integers(0, 2**16))
def test_masks_sum_to_one(nodes, count, scope_threshold, seed):
    scores, affinities = random_problem(seed, nodes)
    _, masks = run(scores.float(), affinities.float(), count, scope_threshold)
    assert masks.shape == (count + 1, nodes)
    torch.testing.assert_close(masks.sum(0), torch.ones(nodes), atol=1e-6, rtol=0)
    assert masks.min() >= 0


def test_windows_are_independent():
    problems = [random_problem(seed) for seed in range(3)]
    scores, affinities = (torch.stack(x) for x in zip(*problems, strict=True))

    def rows(index):
        return affinities.gather(-2, index.unsqueeze(-1).expand(-1, -1, affinities.shape[-1]))

    together = choose_anchors(scores, torch.arange(12), rows, 5)
    for window, (score, affinity) in enumerate(problems):
        alone, _ = run(score, affinity, 5)
        assert torch.equal(together.nodes[window], alone.nodes)


def test_gradient_of_stick_breaking():
    _, affinities = random_problem(0, 5)
    rows = affinities[:3].requires_grad_()
    assert gradcheck(lambda x: break_stick(x, torch.tensor([True, True, True])), rows)
    assert gradcheck(lambda x: break_stick(x, torch.tensor([True, False, False])), rows)


def test_candidates_are_strided_cells_with_all_their_nodes():
    assert dilated_candidates((2, 2), 1, 1) == [0, 1, 2, 3]
    assert dilated_candidates((4, 4), 2, 3) == [10, 11]
    assert dilated_candidates((4, 4), 1, 2) == [0, 2, 8, 10]
    assert dilated_candidates((1, 1), 1, 5) == [0]


def test_only_candidates_are_chosen():
    scores, affinities = random_problem(3)
    candidates = torch.tensor([2, 5, 7])
    anchors = choose_anchors(scores[candidates], candidates, lambda index: affinities[index], 3)
    assert set(anchors.nodes.tolist()) <= {2, 5, 7}


def test_an_anchor_is_wanted_while_the_scope_is_exactly_at_the_threshold():
    """Affinities of a half leave ½, ¼, ⅛ of the scope; these are exact."""
    affinities = torch.full((4, 4), 0.5, dtype=torch.float64)
    anchors, _ = run(torch.ones(4, dtype=torch.float64), affinities, 4, scope_threshold=0.25)
    assert anchors.wanted.tolist() == [True, True, True, False]
