"""INV-SA: its frames and what they leave unchanged, its attention and decoder against the slow transcription."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from cocanet.models.baselines.inv_sa import Frames, cells, find_frames, lecun_normal
from tests.models.baselines import baselines, transcription
from tests.models.baselines.baselines import (
    SURELY_NOT,
    WIDE,
    assert_close,
    assert_decoded,
    decode,
    new,
    random_slots,
    seen,
)
from tests.models.baselines.transcription import convolutions
from tests.reference.layers import conv, enlarge, weights


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
    config = baselines.inv_sa(scale_unit=scale_unit)
    model = baselines.make(config).double()
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
    features, slots, frames = scene(baselines.inv_sa())
    factor = torch.tensor([0.5, 0.8], dtype=torch.float64)
    for scale_unit in (5.0, None):
        model = baselines.make(baselines.inv_sa(scale_unit=scale_unit)).double()
        still = model.rounds(features, slots, frames).slots[..., :5]
        model.grid = model.grid * factor
        larger = model.rounds(features, slots, Frames(frames.positions * factor, frames.scales * factor)).slots
        change = (larger[..., :5] - still).abs().max()
        assert change < 1e-5 if scale_unit else change > 1e-3


@pytest.mark.parametrize("iterations", [1, 2])
@pytest.mark.parametrize("scale_unit", [5.0, None])
def test_rounds_of_invariant_attention(scale_unit, iterations):
    config = baselines.inv_sa(scale_unit=scale_unit, iterations=iterations)
    model = baselines.make(config).double()
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(2, 32, config.channels, generator=generator, dtype=torch.float64)
    slots = torch.randn(2, 3, config.dim, generator=generator, dtype=torch.float64)
    positions = 2 * torch.rand(2, 3, 2, generator=generator, dtype=torch.float64) - 1
    scales = torch.rand(2, 3, 2, generator=generator, dtype=torch.float64).clamp(min=0.001)
    # The grid is made in 32 bits and rounded there.
    model.grid = cells(8, 4).double()
    found, attention = model.rounds(features, slots, Frames(positions, scales))
    for image in range(2):
        s, p, r = (value[image].numpy() for value in (slots, positions, scales))
        w = weights(model)
        for last in [*[False] * iterations, True]:
            after, p, r, expected_attention = transcription.invariant_round(
                features[image].numpy(), model.grid.numpy(), s, p, r, w, scale_unit
            )
            s = s if last else after
        assert_close(found[image].detach(), np.concatenate((s, p, r), -1))
        assert_close(attention[image].detach(), expected_attention)


def test_single_precision_agrees_with_double():
    """The folded normalisation loses nothing, also for slots that are very small."""
    config = baselines.inv_sa()
    model = baselines.make(config)
    features, slots = torch.randn(1, 32, config.channels), torch.randn(1, 3, config.dim)
    frames = Frames(2 * torch.rand(1, 3, 2) - 1, torch.tensor([0.001, 0.05, 2.0]).view(1, 3, 1).expand(1, 3, 2))
    single = model.rounds(features, slots, frames)
    model.double()
    double = model.rounds(features.double(), slots.double(), Frames(*(value.double() for value in frames)))
    torch.testing.assert_close(single.slots.double(), double.slots, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(single.attention.double(), double.attention, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("strides", [(1, 1, 1, 1), (2, 1)])
def test_inv_sa_attends_to_convolved_pixels_and_a_grid_apart_from_them(strides):
    config = baselines.inv_sa(encoder_strides=strides)
    model, x = baselines.make(config).eval(), baselines.images(config)
    found, w = seen(model, model.attention.norm_inputs, x), weights(model)
    for image in range(2):
        features = convolutions(x[image].double().numpy(), w, "encoder.layers", strides, rectify_last=False)
        rows, columns = features.shape[1:]
        cells = list(np.ndindex(rows, columns))
        np.testing.assert_allclose(found[image], [features[:, i, j] for i, j in cells], atol=1e-5, rtol=1e-5)
        places = [(-1 + 2 * i / (rows - 1), -1 + 2 * j / (columns - 1)) for i, j in cells]
        np.testing.assert_allclose(model.grid, places, atol=1e-6)


def test_the_papers_masks_of_inv_sa_favour_slots_that_won_little():
    config = baselines.inv_sa()
    model, paper = baselines.make(config), baselines.make(replace(config, encoder_masks="paper"))
    a = torch.tensor([0.95, 0.03, 0.02]).view(1, 3, 1).repeat(1, 1, 32)
    a[0, :, 0] = torch.tensor([0.6, 0.3, 0.1])
    assert (model.encoder_masks(a).argmax(1) == 0).all()
    assert paper.encoder_masks(a).argmax(1)[0, 0, 0] == 1


@pytest.mark.parametrize(
    ("broadcast", "strides", "kernel", "scale_unit"),
    [
        ((8, 4), (2, 1), 5, 5.0),
        ((4, 2), (2, 2, 1), 5, 2.0),
        ((16, 8), (1, 1, 1), 1, None),
        ((16, 8), (1, 1), 1, 5.0),
    ],
)
def test_relative_decoder(broadcast, strides, kernel, scale_unit):
    config = baselines.inv_sa(
        broadcast=broadcast, decoder_strides=strides, decoder_kernel=kernel, scale_unit=scale_unit
    )
    model = baselines.make(config)
    features, positions, scales = random_slots(config.dim, 2, 2)
    positions, scales = positions.tanh(), 0.1 + scales.abs()
    w, decoded = weights(model.decoder), decode(model, torch.cat((features, positions, scales), -1))
    rows, columns = broadcast
    for image in range(2):
        layers = []
        parts = (part[image].double().numpy() for part in (features, positions, scales))
        for slot, position, scale in zip(*parts, strict=True):
            x = np.zeros((config.dim, *broadcast))
            for row, column in np.ndindex(*broadcast):
                relative = np.array([-1 + 2 * row / (rows - 1), -1 + 2 * column / (columns - 1)]) - position
                if scale_unit is not None:
                    relative = relative / scale_unit / scale
                x[:, row, column] = slot + w["position.weight"] @ relative + w["position.bias"]
            for layer, stride in enumerate(strides):
                x = np.maximum(enlarge(x, w, f"layers.{layer}", stride), 0)
            layers.append(conv(x, w, "head"))
        assert_decoded(decoded, image, layers, darkest=0)


def test_decoding_follows_the_frame():
    config = baselines.inv_sa(decoder_kernel=1, broadcast=(16, 8), decoder_strides=(1, 1))
    model = baselines.make(config).eval()
    slots = torch.cat((torch.randn(1, 3, 5), torch.zeros(1, 3, 2), torch.full((1, 3, 2), 0.4)), -1)
    moved = slots.clone()
    moved[..., 5] += 3 * 2 / 15  # three rows of sixteen
    torch.testing.assert_close(
        decode(model, moved).reconstruction[:, :, 3:],
        decode(model, slots).reconstruction[:, :, :-3],
        atol=1e-5,
        rtol=1e-4,
    )


def test_frames_are_mean_and_deviation_and_stay_in_bounds():
    grid = torch.tensor([[-1.0, 0.0], [1.0, 0.0], [0.0, 0.5]])
    weights = torch.tensor([[[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]])
    frames = find_frames(weights, grid)
    torch.testing.assert_close(frames.positions, torch.tensor([[[0.0, 0.0], [0.0, 0.5]]]))
    torch.testing.assert_close(frames.scales, torch.tensor([[[1.0, 0.001], [0.001, 0.001]]]))


def test_first_frames_lie_in_their_bounds():
    model = baselines.make(baselines.inv_sa()).train()
    frames = model.first_frames(2000)
    assert frames.positions.min() >= -1
    assert frames.positions.max() <= 1
    torch.testing.assert_close(frames.positions.std(), torch.tensor(3**-0.5), atol=0.02, rtol=0)
    assert frames.scales.min() >= 0.001
    torch.testing.assert_close(frames.scales.median(), torch.tensor(0.1), atol=0.01, rtol=0)
    fixed = model.eval().first_frames(2)
    assert torch.equal(fixed.positions[0], fixed.positions[1])


def test_gradients_reach_the_features_through_positions_and_scales():
    config = baselines.inv_sa()
    model = baselines.make(config)
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
    model = baselines.CLASSES["inv-sa"](baselines.inv_sa(dim=16))
    for gate in model.update.gru.weight_hh.chunk(3):
        torch.testing.assert_close(gate @ gate.T, torch.eye(16), atol=1e-5, rtol=0)


def test_weights_of_inv_sa_have_a_variance_of_one_by_the_inputs():
    model = new(baselines.inv_sa(decoder_channels=16, **WIDE))
    kinds = set()
    for name, layer in model.named_modules():
        if isinstance(layer, nn.LayerNorm):
            assert (layer.weight == 1).all(), name
            assert not layer.bias.any(), name
        if isinstance(layer, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
            kinds.add(type(layer))
            taps = 1 if isinstance(layer, nn.Linear) else layer.kernel_size[0] ** 2
            inputs = taps * (layer.in_features if isinstance(layer, nn.Linear) else layer.in_channels)
            standard = layer.weight.detach() * math.sqrt(inputs)
            assert standard.std().item() == pytest.approx(1, abs=0.12), name
            assert standard.abs().max() < 2.28, name
            assert layer.bias is None or not layer.bias.any(), name
    assert kinds == {nn.Linear, nn.Conv2d, nn.ConvTranspose2d}
    gru = model.update.gru
    assert (gru.weight_ih * math.sqrt(256)).std().item() == pytest.approx(1, abs=0.02)
    assert not gru.bias_ih.any()
    assert not gru.bias_hh.any()


def test_features_of_inv_sas_slots_are_learned_from_a_standard_normal_and_not_drawn():
    model = new(baselines.inv_sa(dim=256)).train()
    assert model.features.shape == (3, 256)
    assert stats.kstest(model.features.detach().flatten().numpy(), "norm").pvalue > SURELY_NOT
    given = []
    model.attention.norm_slots.register_forward_pre_hook(lambda module, arguments: given.append(arguments[0]))
    model(baselines.images(model.config))
    assert torch.equal(given[0], torch.stack((model.features, model.features)))


def test_scales_of_inv_sas_slots_are_normal_above_the_least():
    torch.manual_seed(0)
    scales = new(baselines.inv_sa()).train().first_frames(3000).scales.flatten().double().numpy()
    normal = stats.norm(0.1, 0.1)
    least = np.isclose(scales, 0.001)
    assert least.mean() == pytest.approx(normal.cdf(0.001), abs=0.015)
    ranks = (normal.cdf(scales[~least]) - normal.cdf(0.001)) / normal.sf(0.001)
    assert stats.kstest(ranks, "uniform").pvalue > SURELY_NOT
