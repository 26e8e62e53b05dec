"""The whole network: shapes, sums, gradients, and the direct transcription in torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from benchmarks import direct

import cocanet
from cocanet import presets
from cocanet.config.resolution import at_image_size
from cocanet.models.coca_net import CocaNet
from cocanet.models.model import reconstruction_loss
from tests.tiny import DEEP, FLAT, THREE, images, in_slot_frame, small


@pytest.mark.parametrize(
    "config",
    [small(), DEEP, FLAT, small(norm="image"), in_slot_frame(small()), in_slot_frame(DEEP), in_slot_frame(FLAT)],
    ids=["two", "four", "one", "image", "two-slot-frame", "four-slot-frame", "one-slot-frame"],
)
@pytest.mark.parametrize("batch", [1, 3])
def test_shapes_sums_and_gradients(config, batch):
    model, x = cocanet.build(config, seed=0), images(config, batch)
    out = model(x)
    assert out.slots.shape == (batch, 4, 16)
    assert out.slot_images.shape == (batch, 4, 3, *config.image_size)
    for masks in (out.encoder_masks, out.decoder_masks):
        assert masks.shape == (batch, 4, *config.image_size)
        torch.testing.assert_close(masks.sum(1), torch.ones(batch, *config.image_size), atol=1e-6, rtol=0)
    assert out.reconstruction.shape == x.shape
    torch.testing.assert_close(out.reconstruction, (out.slot_images * out.decoder_masks.unsqueeze(2)).sum(1))
    assert out.in_use.all()
    assert [level.clusters.masks.shape[2] for level in out.levels] == [level.clusters for level in config.levels]
    reconstruction_loss(out, x).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


Tensors = dict[str, torch.Tensor]


def results(forward: Callable, model: CocaNet, x: torch.Tensor) -> tuple[Tensors, Tensors]:
    """Outputs and gradients."""
    out = forward(x)
    model.zero_grad()
    (4 * (out.reconstruction - x).square().mean() + out.slots.square().mean()).backward()
    outputs = {name: getattr(out, name).detach() for name in ("slots", "reconstruction", "encoder_masks")}
    return outputs, {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


DILATED = small(levels=tuple(replace(level, candidate_stride=2) for level in small().levels))
DIRECT = {
    "two": small(),
    "three": THREE,
    "four with all reaches": DEEP,
    "dilated": DILATED,
    "printed inertia": replace(THREE, inertia="printed"),
    "released inertia": replace(THREE, inertia="released"),
    "tetrominoes": presets.tetrominoes().model,
}


@pytest.mark.parametrize("config", DIRECT.values(), ids=DIRECT)
def test_agrees_with_the_direct_transcription(config):
    """Outputs and gradients in float64."""
    model = cocanet.build(config, seed=1).double()
    x = images(config, batch=1 if config.image_size == (32, 32) else 2).double()
    (ours, our_gradients), (expected, gradients) = (
        results(forward, model, x) for forward in (model, lambda x: direct.forward(model, x))
    )
    for name, value in expected.items():
        torch.testing.assert_close(ours[name], value, atol=1e-8, rtol=1e-8, msg=name)
    assert our_gradients.keys() == gradients.keys()
    for name, gradient in gradients.items():
        assert (our_gradients[name] - gradient).norm() <= 1e-7 * gradient.norm(), name


def test_clevrtex_agrees_with_the_direct_transcription():
    """Three levels with neighbourhood and global attention, at 64 pixels and with fewer nodes in the last level."""
    config = at_image_size(presets.clevrtex().model, (64, 64))
    first, second, last = config.levels
    model = cocanet.build(replace(config, levels=(first, replace(second, clusters=2), last)), seed=1).double()
    x = images(model.config, batch=1).double()
    with torch.inference_mode():
        ours, expected = model(x), direct.forward(model, x)
    for field in ("slots", "reconstruction", "encoder_masks"):
        torch.testing.assert_close(getattr(ours, field), getattr(expected, field), atol=1e-7, rtol=1e-7)


def test_float32_is_close_to_float64():
    model, x = cocanet.build(THREE, seed=1), images(THREE)
    single, double = model(x), cocanet.build(THREE, seed=1).double()(x.double())
    assert torch.equal(single.levels[-1].clusters.anchors, double.levels[-1].clusters.anchors)
    for field in ("slots", "reconstruction", "encoder_masks"):
        torch.testing.assert_close(getattr(single, field).double(), getattr(double, field), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("config", [small(), DEEP], ids=["conv", "transposed"])
def test_an_image_gives_the_same_masks_alone_as_in_a_batch(config):
    model = cocanet.build(config, seed=0).eval()
    batch = images(config, batch=5)
    together = model(batch)
    for index in range(5):
        alone = model(batch[index : index + 1])
        torch.testing.assert_close(alone.encoder_masks[0], together.encoder_masks[index], atol=1e-5, rtol=0)
        torch.testing.assert_close(alone.decoder_masks[0], together.decoder_masks[index], atol=1e-5, rtol=0)


def test_the_same_seed_gives_the_same_weights_and_leaves_torch_alone():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, second, other = (cocanet.build(small(), seed=seed).state_dict() for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


def test_every_preset_builds():
    for name in (*presets.PRESETS, *(f"clevr6-{variant}" for variant in presets.VARIANTS)):
        preset = presets.find(name)
        with torch.device("meta"):
            assert cocanet.build(preset).config.slots == preset.model.levels[-1].clusters


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(presets.PRESETS))
def test_every_preset_takes_a_step(name):
    model = cocanet.build(presets.PRESETS[name](), seed=0)
    x = images(model.config, batch=1)
    optimiser = torch.optim.Adam(model.parameters(), 3e-4)
    loss = reconstruction_loss(model(x), x)
    loss.backward()
    optimiser.step()
    with torch.no_grad():
        assert reconstruction_loss(model(x), x) < loss


def test_dynamic_slots_differ_per_image_and_only_in_evaluation():
    preset = presets.with_dynamic_slots(presets.tetrominoes(), scope_threshold=0.15, max_slots=9)
    model = cocanet.build(preset, seed=0)
    plain, busy = torch.zeros(1, 3, 32, 32), images(model.config, batch=1)
    x = torch.cat((plain, busy))
    assert model.train()(x).slots.shape[1] == 4
    out = model.eval()(x)
    assert out.slots.shape[1] == 9
    counts = out.in_use.sum(1)
    assert counts[0] != counts[1]
    unused = ~out.in_use
    assert unused.any()
    assert (out.decoder_masks[unused] == 0).all()
    assert (out.encoder_masks[unused] == 0).all()
    torch.testing.assert_close(out.decoder_masks.sum(1), torch.ones(2, 32, 32))
    alone = model(plain)
    torch.testing.assert_close(alone.decoder_masks[0], out.decoder_masks[0], atol=1e-5, rtol=0)


def test_images_of_another_size_are_refused():
    with pytest.raises(ValueError, match="takes images of 8×12 pixels; got 12×8"):
        cocanet.build(small(), seed=0)(torch.rand(1, 3, 12, 8))


def test_works_under_autocast():
    model, x = cocanet.build(small(), seed=0), images(small())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(x)
    assert out.reconstruction.dtype == torch.float32
    torch.testing.assert_close(out.encoder_masks.sum(1), torch.ones(2, 8, 12), atol=1e-5, rtol=0)
    reconstruction_loss(out, x).backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())
