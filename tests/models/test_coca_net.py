import pytest
import torch
from benchmarks import direct

import cocanet
from cocanet import presets
from cocanet.models.model import reconstruction_loss
from tests.tiny import DEEP, FLAT, THREE, images, in_slot_frame, small

ALL = sorted(presets.PRESETS)


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
    assert 0 <= out.reconstruction.min() <= out.reconstruction.max() <= 1
    assert out.in_use.all()
    assert [level.clusters.masks.shape[2] for level in out.levels] == [level.clusters for level in config.levels]
    reconstruction_loss(out, x).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


def relative_error(ours: torch.Tensor, expected: torch.Tensor) -> float:
    return float((ours - expected).norm() / expected.norm().clamp(min=1e-12))


@pytest.mark.parametrize(
    "config",
    [
        small(),
        THREE,
        presets.with_fourier_positions(presets.tetrominoes()).model,
        pytest.param(presets.with_fourier_positions(presets.multi_dsprites()).model, marks=pytest.mark.slow),
    ],
    ids=["two", "three", "tetrominoes", "multi-dsprites"],
)
def test_agrees_with_the_direct_transcription(config):
    model = cocanet.build(config, seed=1)
    x = images(config, batch=2)
    results = []
    for forward in (lambda x: model(x), lambda x: direct.forward(model, x)):
        out = forward(x)
        model.zero_grad()
        (4 * (out.mixture - x).square().mean() + out.slots.square().mean()).backward()
        gradients = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
        results.append((out, gradients))
    (ours, our_gradients), (expected, expected_gradients) = results
    for field in ("slots", "mixture", "encoder_masks"):
        torch.testing.assert_close(getattr(ours, field), getattr(expected, field), atol=1e-5, rtol=1e-5)
    assert our_gradients.keys() == expected_gradients.keys()
    for parameter, gradient in expected_gradients.items():
        assert relative_error(our_gradients[parameter], gradient) < 1e-4, parameter


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


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    "variant",
    [lambda p: p, presets.with_random_anchors, presets.with_dynamic_slots, presets.with_dilated_candidates],
    ids=["plain", "ras", "dyna", "dilated"],
)
def test_every_preset_builds(name, variant):
    preset = variant(presets.PRESETS[name]())
    model = cocanet.build(preset, seed=0)
    assert model.config.slots == preset.model.levels[-1].clusters


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_every_preset_takes_a_step(name):
    model = cocanet.build(presets.PRESETS[name](), seed=0)
    x = images(model.config, batch=1)
    optimiser = torch.optim.Adam(model.parameters(), 3e-4)
    losses = []
    for _ in range(3):
        loss = reconstruction_loss(model(x), x)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_dynamic_slots_differ_per_image_and_only_in_evaluation():
    preset = presets.with_dynamic_slots(presets.tetrominoes(), stop_below=0.15, most=9)
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
    assert out.mixture.dtype == torch.float32
    torch.testing.assert_close(out.encoder_masks.sum(1), torch.ones(2, 8, 12), atol=1e-5, rtol=0)
    reconstruction_loss(out, x).backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())
