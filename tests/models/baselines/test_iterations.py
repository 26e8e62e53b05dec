"""The rivals' rounds of attention against the slow transcription."""

import numpy as np
import pytest
import torch

from cocanet.models.baselines.invariant_attention import Frames, coordinates
from tests.models.baselines import rivals, transcription


def assert_close(ours: torch.Tensor, expected: np.ndarray) -> None:
    torch.testing.assert_close(ours, torch.from_numpy(expected), atol=1e-10, rtol=1e-9)


@pytest.mark.parametrize("damped", [False, True], ids=["slot-attention", "bo-qsa"])
def test_an_iteration_of_slot_attention(damped):
    config = rivals.bo_qsa(drop_path=0.0) if damped else rivals.slot_attention()
    iteration = rivals.make(config).double().iteration
    generator = torch.Generator().manual_seed(1)
    width = config.dim if damped else config.channels
    inputs = torch.randn(2, 12, width, generator=generator, dtype=torch.float64)
    slots = torch.randn(2, 3, config.dim, generator=generator, dtype=torch.float64)
    found = iteration(inputs, slots)
    for image in range(2):
        expected, attention = transcription.slot_attention(
            inputs[image].numpy(),
            slots[image].numpy(),
            transcription.weights(iteration),
            eps=1e-5 if damped else 1e-3,
            damped=damped,
        )
        assert_close(found.slots[image].detach(), expected)
        assert_close(found.attention[image].detach(), attention)


@pytest.mark.parametrize("iterations", [1, 2])
@pytest.mark.parametrize("scale_unit", [5.0, None])
def test_rounds_of_invariant_attention(scale_unit, iterations):
    config = rivals.inv_sa(scale_unit=scale_unit, iterations=iterations)
    model = rivals.make(config).double()
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(2, 32, config.channels, generator=generator, dtype=torch.float64)
    slots = torch.randn(2, 3, config.dim, generator=generator, dtype=torch.float64)
    positions = 2 * torch.rand(2, 3, 2, generator=generator, dtype=torch.float64) - 1
    scales = torch.rand(2, 3, 2, generator=generator, dtype=torch.float64).clamp(min=0.001)
    # The grid is made in 32 bits and rounded there.
    model.grid = coordinates(8, 4).double()
    found, attention = model.rounds(features, slots, Frames(positions, scales))
    for image in range(2):
        s, p, r = (value[image].numpy() for value in (slots, positions, scales))
        w = transcription.weights(model)
        for last in [*[False] * iterations, True]:
            after, p, r, expected_attention = transcription.invariant_round(
                features[image].numpy(), model.grid.numpy(), s, p, r, w, scale_unit
            )
            s = s if last else after
        assert_close(found[image].detach(), np.concatenate((s, p, r), -1))
        assert_close(attention[image].detach(), expected_attention)


def test_the_hidden_state_is_the_slot_and_the_input_what_it_took_up():
    update = rivals.make(rivals.inv_sa()).update
    with torch.no_grad():
        update.gru.bias_ih[5:10] = 50.0  # the gate that keeps the hidden state
        update.mlp.outer.weight.zero_()
        update.mlp.outer.bias.zero_()
    slots, taken = torch.randn(2, 3, 5), torch.randn(2, 3, 5)
    torch.testing.assert_close(update(slots, taken), slots)


def test_single_precision_agrees_with_double():
    """The folded normalisation loses nothing, also for slots that are very small."""
    config = rivals.inv_sa()
    model = rivals.make(config)
    features, slots = torch.randn(1, 32, config.channels), torch.randn(1, 3, config.dim)
    frames = Frames(2 * torch.rand(1, 3, 2) - 1, torch.tensor([0.001, 0.05, 2.0]).view(1, 3, 1).expand(1, 3, 2))
    single = model.rounds(features, slots, frames)
    model.double()
    double = model.rounds(features.double(), slots.double(), Frames(*(value.double() for value in frames)))
    torch.testing.assert_close(single.slots.double(), double.slots, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(single.attention.double(), double.attention, atol=1e-4, rtol=1e-4)
