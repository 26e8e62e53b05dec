import pytest
import torch

from cocanet.models.baselines.invariant_attention import Frames, find_frames
from cocanet.models.baselines.lecun import lecun_normal
from tests.models.baselines import rivals


def scene(config, seed: int = 0):
    """Features of 32 cells, slots and first frames."""
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(2, 32, config.channels, generator=generator, dtype=torch.float64)
    slots = torch.randn(2, 3, config.dim, generator=generator, dtype=torch.float64)
    positions = torch.rand(2, 3, 2, generator=generator, dtype=torch.float64) - 0.5
    scales = 0.1 + torch.rand(2, 3, 2, generator=generator, dtype=torch.float64)
    return features, slots, Frames(positions, scales)


@pytest.mark.parametrize("scale_unit", [5.0, None])
def test_a_shift_of_grid_and_positions_changes_positions_only(scale_unit):
    config = rivals.inv_sa(scale_unit=scale_unit)
    model = rivals.make(config).double()
    features, slots, frames = scene(config)
    still = model.rounds(features, slots, frames)
    shift = torch.tensor([0.3, -0.7], dtype=torch.float64)
    model.grid = model.grid + shift
    moved = model.rounds(features, slots, Frames(frames.positions + shift, frames.scales))
    by = torch.cat((torch.zeros(config.dim), shift, torch.zeros(2)))
    # Weights sum to 1 up to a small number that keeps empty slots finite, and positions feel that.
    torch.testing.assert_close(moved.slots, still.slots + by, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(moved.attention, still.attention, atol=1e-6, rtol=1e-6)
    unmoved = model.rounds(features, slots, frames)
    assert (unmoved.slots - still.slots)[..., : config.dim].abs().max() > 1e-3


def test_a_scaled_grid_changes_frames_only_where_scale_is_left_out_of_account():
    features, slots, frames = scene(rivals.inv_sa())
    factor = torch.tensor([0.5, 0.8], dtype=torch.float64)
    for scale_unit in (5.0, None):
        model = rivals.make(rivals.inv_sa(scale_unit=scale_unit)).double()
        still = model.rounds(features, slots, frames).slots[..., :5]
        model.grid = model.grid * factor
        larger = model.rounds(features, slots, Frames(frames.positions * factor, frames.scales * factor)).slots
        change = (larger[..., :5] - still).abs().max()
        assert change < 1e-5 if scale_unit else change > 1e-3


def test_painting_follows_the_frame():
    config = rivals.inv_sa(decoder_kernel=1, broadcast=(16, 8), decoder_strides=(1, 1))
    model = rivals.make(config).eval()
    slots = torch.cat((torch.randn(1, 3, 5), torch.zeros(1, 3, 2), torch.full((1, 3, 2), 0.4)), -1)
    moved = slots.clone()
    moved[..., 5] += 3 * 2 / 15  # three rows of sixteen
    torch.testing.assert_close(
        model.paint(moved).mixture[:, :, 3:], model.paint(slots).mixture[:, :, :-3], atol=1e-5, rtol=1e-4
    )


def test_frames_are_mean_and_deviation_and_stay_in_bounds():
    grid = torch.tensor([[-1.0, 0.0], [1.0, 0.0], [0.0, 0.5]])
    weights = torch.tensor([[[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]])
    frames = find_frames(weights, grid)
    torch.testing.assert_close(frames.positions, torch.tensor([[[0.0, 0.0], [0.0, 0.5]]]))
    torch.testing.assert_close(frames.scales, torch.tensor([[[1.0, 0.001], [0.001, 0.001]]]))


def test_first_frames_lie_in_their_bounds():
    model = rivals.make(rivals.inv_sa()).train()
    frames = model.first_frames(2000)
    assert frames.positions.min() >= -1
    assert frames.positions.max() <= 1
    torch.testing.assert_close(frames.positions.std(), torch.tensor(3**-0.5), atol=0.02, rtol=0)
    assert frames.scales.min() >= 0.001
    torch.testing.assert_close(frames.scales.median(), torch.tensor(0.1), atol=0.01, rtol=0)
    fixed = model.eval().first_frames(2)
    assert torch.equal(fixed.positions[0], fixed.positions[1])


def test_gradients_reach_the_features_through_positions_and_scales():
    config = rivals.inv_sa()
    model = rivals.make(config)
    features, slots, frames = (value.float() if torch.is_tensor(value) else value for value in scene(config))
    features.requires_grad_()
    frames = Frames(*(value.float() for value in frames))
    found = model.rounds(features, slots, frames).slots
    for part in (slice(5, 7), slice(7, 9)):
        (gradient,) = torch.autograd.grad(found[..., part].sum(), features, retain_graph=True)
        assert gradient.abs().max() > 0


def test_initial_weights_have_the_variance_of_flax():
    torch.manual_seed(0)
    weight = torch.empty(400, 100)
    lecun_normal(weight, 100)
    assert abs(weight.std().item() - 0.1) < 0.002
    assert weight.abs().max() <= 2 * 0.1 / 0.8796 + 1e-6
    model = rivals.CLASSES["inv-sa"](rivals.inv_sa(dim=16))
    for gate in model.update.gru.weight_hh.chunk(3):
        torch.testing.assert_close(gate @ gate.T, torch.eye(16), atol=1e-5, rtol=0)
