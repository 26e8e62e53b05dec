"""The baselines with iterative attention, and the parts that several of them share against slow transcriptions."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import safetensors.torch
import torch
import torch.nn.functional as F
from torch import nn

from cocanet.config.baselines import BoQsaConfig, InvSaConfig, SlotAttentionConfig
from cocanet.config.serialization import from_dict, to_dict
from cocanet.models.baselines.parts import coordinates, stretch
from tests.models.baselines import baselines, transcription
from tests.models.baselines.baselines import (
    assert_close,
    assert_decoded,
    decode,
    noise_images,
    random_slots,
    seen,
    tiny_model,
)
from tests.models.baselines.transcription import (
    convolutions,
    edge_embedding,
    invariant_round,
    layer_norm,
    mlp,
    slot_attention,
)
from tests.reference.layers import conv, enlarge, weights


@dataclass(frozen=True)
class Held:
    model: SlotAttentionConfig | InvSaConfig | BoQsaConfig


EACH = pytest.mark.parametrize("config", baselines.ALL.values(), ids=baselines.ALL)


@EACH
@pytest.mark.parametrize("batch", [1, 3])
def test_shapes_sums_and_gradients(config, batch):
    model, x = baselines.make(config), baselines.images(config, batch)
    out = model(x)
    assert out.slots.shape[:2] == (batch, 3)
    assert out.slot_images.shape == (batch, 3, 3, 16, 8)
    for masks in (out.encoder_masks, out.decoder_masks):
        assert masks.shape == (batch, 3, 16, 8)
        assert masks.min() >= 0
        torch.testing.assert_close(masks.sum(1), torch.ones(batch, 16, 8), atol=1e-5, rtol=0)
    torch.testing.assert_close(out.reconstruction, (out.slot_images * out.decoder_masks.unsqueeze(2)).sum(1))
    assert out.in_use.all()
    model.loss(out, x).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


@EACH
def test_encoder_masks_can_be_taught(config):
    model, x = baselines.make(config), baselines.images(config)
    model(x).encoder_masks[:, 0].square().mean().backward()
    first = next(model.encoder.parameters())
    assert first.grad is not None
    assert first.grad.abs().max() > 0


@EACH
def test_loss_compares_the_reconstruction_with_the_image(config):
    model, x = baselines.make(config), baselines.images(config)
    out = model(x)
    error = (out.reconstruction - x) ** 2
    if config.kind == "inv-sa":
        expected = sum(error[image].sum() for image in range(2)) / 2
    else:
        expected = 4 * error.sum() / error.numel()
    torch.testing.assert_close(model.loss(out, x), expected)
    assert model.loss(replace(out, reconstruction=x), x) == 0


@EACH
def test_evaluation_repeats_and_does_not_depend_on_the_batch(config):
    model, x = baselines.make(config).eval(), baselines.images(config, 3)
    before = torch.random.get_rng_state()
    both, again, alone = model(x), model(x), model(x[1:2])
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(both.reconstruction, again.reconstruction)
    torch.testing.assert_close(both.reconstruction[1:2], alone.reconstruction)
    torch.testing.assert_close(both.encoder_masks[1:2], alone.encoder_masks)
    turned = model(x.flip(0))
    torch.testing.assert_close(both.slots, turned.slots.flip(0))
    other = baselines.make(config, seed=1).eval()
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(x).reconstruction, both.reconstruction)


@EACH
def test_training_draws_anew_for_each_image_from_torchs_generator(config):
    model = baselines.make(config).train()
    x = baselines.images(config, 1).expand(2, -1, -1, -1)
    torch.manual_seed(0)
    first, second = model(x).slots, model(x).slots
    torch.manual_seed(0)
    assert torch.equal(model(x).slots, first)
    assert (first - second).abs().max() > 1e-4
    assert (first[0] - first[1]).abs().max() > 1e-4


@EACH
def test_state_round_trips_through_a_file(config, tmp_path):
    model, x = baselines.make(config), baselines.images(config)
    model.anneal(0.05)
    safetensors.torch.save_file(model.state_dict(), tmp_path / "weights.safetensors")
    other = baselines.make(config, seed=1)
    assert not torch.equal(other.eval()(x).reconstruction, model.eval()(x).reconstruction)
    other.load_state_dict(safetensors.torch.load_file(tmp_path / "weights.safetensors"))
    for ours, theirs in ((model.train(), other.train()), (model.eval(), other.eval())):
        outputs = []
        for each in (ours, theirs):
            torch.manual_seed(3)
            outputs.append(each(x).reconstruction)
        assert torch.equal(*outputs)


@EACH
def test_evaluation_changes_no_state(config):
    model = baselines.make(config).eval()
    model.anneal(0.05)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with torch.inference_mode():
        model(baselines.images(config))
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


@EACH
def test_images_of_another_size_are_refused(config):
    with pytest.raises(ValueError, match="takes images of 16×8 pixels; got 8×16"):
        baselines.make(config)(torch.rand(1, 3, 8, 16))


@EACH
def test_works_under_autocast(config):
    model, x = baselines.make(config), baselines.images(config)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(x)
    assert out.reconstruction.dtype == torch.float32
    torch.testing.assert_close(out.encoder_masks.sum(1), torch.ones(2, 16, 8), atol=1e-5, rtol=0)
    model.loss(out, x).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


@EACH
def test_configuration_as_plain_json_and_back(config):
    held = Held(config)
    assert from_dict(Held, to_dict(held), "here") == held


@pytest.mark.parametrize(
    ("make", "changes", "message"),
    [
        (baselines.slot_attention, {"decoder_strides": (2, 2)}, "the decoder makes 32×16 images; expected 16×8"),
        (baselines.slot_attention, {"decoder_strides": ()}, r"the decoder needs at least one layer .*got \(\)"),
        (baselines.slot_attention, {"encoder_strides": (2, 0)}, r"the encoder needs .* got \(2, 0\)"),
        (baselines.slot_attention, {"encoder_strides": (3,)}, "shrinks by 3, which does not divide 16×8"),
        (baselines.slot_attention, {"iterations": 0}, "iterations must be positive; got 0"),
        (baselines.inv_sa, {"decoder_kernel": 4}, "must be odd to keep the resolution; got 4"),
        (baselines.inv_sa, {"scale_unit": 0.0}, "scale_unit must be positive; got 0"),
        (baselines.bo_qsa, {"drop_path": 1.0}, "drop_path must be .* got 1.0"),
        (baselines.bo_qsa, {"noisy_share": -0.1}, "noisy_share must lie between 0 and 1; got -0.1"),
    ],
)
def test_bad_configurations_are_refused(make, changes, message):
    with pytest.raises(ValueError, match=message):
        make(**changes)


def make_faint(*layers: nn.Module) -> None:
    """Shrink what layers put out, so that the ε of a normalisation after them counts."""
    with torch.no_grad():
        for layer in layers:
            for parameter in layer.parameters():
                parameter *= 0.02


@pytest.mark.parametrize("strides", [(1, 1, 1, 1), (2, 1)])
@pytest.mark.parametrize(("make", "eps"), [(baselines.slot_attention, 1e-3), (baselines.bo_qsa, 1e-5)])
def test_slots_attend_to_convolved_pixels_with_their_place(make, eps, strides):
    config = make(encoder_strides=strides)
    model, x = baselines.make(config).eval(), baselines.images(config)
    encoder = model.encoder
    make_faint(encoder.conv.layers[-1], encoder.position, encoder.mlp.outer)
    found, w = seen(model, model.iteration, x), weights(model)
    for image in range(2):
        pixels = 2 * x[image].double().numpy() - 1
        features = convolutions(pixels, w, "encoder.conv.layers", strides, rectify_last=True)
        expected = []
        for row, column in np.ndindex(*features.shape[1:]):
            place = edge_embedding(row, column, features.shape[1:], w, "encoder.position.embed")
            normalised = layer_norm(features[:, row, column] + place, w, "encoder.norm", eps)
            expected.append(layer_norm(mlp(normalised, w, "encoder.mlp"), w, "norm", eps))
        np.testing.assert_allclose(found[image], expected, atol=3e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "low"), [("slot-attention", -1), ("bo-qsa", -1), ("inv-sa", 0), ("inv-sa-translation", 0), ("genesis", 0)]
)
def test_range_of_the_pixels_that_the_first_convolution_sees(name, low):
    if name == "genesis":
        model, x = tiny_model(), noise_images()
    else:
        model, x = baselines.make(baselines.ALL[name]), baselines.images(baselines.ALL[name])
    first = next(module for module in model.modules() if isinstance(module, nn.Conv2d))
    for mode in (True, False):
        torch.testing.assert_close(seen(model.train(mode), first, x), low + (1 - low) * x)


def rounds(model, x: torch.Tensor, count: int) -> list[np.ndarray]:
    """Attention of the first `count` rounds for one image."""
    found = []
    if model.config.kind == "inv-sa":
        features = seen(model, model.attention.norm_inputs, x)[0].double().numpy()
        positions, scales = (part[0].double().numpy() for part in model.first_frames(1))
        slots, w, grid = model.features.detach().double().numpy(), weights(model), model.grid.double().numpy()
        for _ in range(count):
            slots, positions, scales, attention = invariant_round(
                features, grid, slots, positions, scales, w, model.config.scale_unit
            )
            found.append(attention)
        return found
    damped = model.config.kind == "bo-qsa"
    inputs, slots = seen(model, model.iteration, x)[0], model.first_slots(1)[0]
    inputs, slots, w = inputs.double().numpy(), slots.detach().double().numpy(), weights(model.iteration)
    for _ in range(count):
        slots, attention = slot_attention(inputs, slots, w, 1e-5 if damped else 1e-3, damped=damped)
        found.append(attention)
    return found


@pytest.mark.parametrize("iterations", [1, 3])
@pytest.mark.parametrize("name", ["slot-attention", "bo-qsa", "inv-sa"])
def test_encoder_masks_are_of_the_last_iteration_or_of_the_round_after_it(name, iterations):
    small = {"image_size": (6, 4), "broadcast": (6, 4), "encoder_strides": (1, 1), "decoder_strides": (1,)}
    config = replace(baselines.ALL[name], iterations=iterations, **small)
    model, x = baselines.make(config).eval(), baselines.images(config, 1)
    masks = model(x).encoder_masks[0].flatten(1).detach().numpy()
    every = rounds(model, x, iterations + 2)
    right = iterations if name == "inv-sa" else iterations - 1
    for number, attention in enumerate(every):
        if number == right:
            np.testing.assert_allclose(masks, attention, atol=1e-5)
        else:
            assert np.abs(masks - attention).max() > 1e-4, number


@pytest.mark.parametrize("damped", [False, True], ids=["slot-attention", "bo-qsa"])
def test_an_iteration_of_slot_attention(damped):
    config = baselines.bo_qsa(drop_path=0.0) if damped else baselines.slot_attention()
    iteration = baselines.make(config).double().iteration
    generator = torch.Generator().manual_seed(1)
    width = config.dim if damped else config.channels
    inputs = torch.randn(2, 12, width, generator=generator, dtype=torch.float64)
    slots = torch.randn(2, 3, config.dim, generator=generator, dtype=torch.float64)
    found = iteration(inputs, slots)
    for image in range(2):
        expected, attention = transcription.slot_attention(
            inputs[image].numpy(),
            slots[image].numpy(),
            weights(iteration),
            eps=1e-5 if damped else 1e-3,
            damped=damped,
        )
        assert_close(found.slots[image].detach(), expected)
        assert_close(found.attention[image].detach(), attention)


def test_the_hidden_state_is_the_slot_and_the_input_what_it_took_up():
    update = baselines.make(baselines.inv_sa()).update
    with torch.no_grad():
        update.gru.bias_ih[5:10] = 50.0  # the gate that keeps the hidden state
        update.mlp.outer.weight.zero_()
        update.mlp.outer.bias.zero_()
    slots, taken = torch.randn(2, 3, 5), torch.randn(2, 3, 5)
    torch.testing.assert_close(update(slots, taken), slots)


def attention(config, seed: int = 0) -> torch.Tensor:
    cells = config.grid[0] * config.grid[1]
    return (3 * torch.randn(2, 3, cells, generator=torch.Generator().manual_seed(seed))).softmax(1)


def upsampled(maps: torch.Tensor, config) -> torch.Tensor:
    return F.interpolate(maps.unflatten(-1, config.grid), config.image_size, mode="bilinear", align_corners=False)


@pytest.mark.parametrize("name", ["slot-attention", "bo-qsa", "inv-sa"])
def test_paper_masks_are_those_of_attention_normalised_over_positions(name):
    config = replace(baselines.ALL[name], encoder_masks="paper")
    model, a = baselines.make(config), attention(config)
    if name == "inv-sa":
        expected = upsampled(a / (a.sum(-1, keepdim=True) + 1e-8), config)
    else:
        normalised = (a + 1e-8) / (a + 1e-8).sum(-1, keepdim=True)
        maps = upsampled(normalised, config)
        low, high = maps.flatten(2).min(-1).values, maps.flatten(2).max(-1).values
        expected = (maps - low[..., None, None]) / (high - low)[..., None, None]
        expected = expected.softmax(1) if name == "bo-qsa" else expected
    torch.testing.assert_close(model.encoder_masks(a), expected, atol=1e-5, rtol=1e-5)
    plain = baselines.make(baselines.ALL[name])
    torch.testing.assert_close(plain.encoder_masks(a), upsampled(a, config), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["slot-attention", "bo-qsa", "inv-sa"])
def test_the_configuration_chooses_the_masks(name):
    config = baselines.ALL[name]
    model, paper = baselines.make(config).eval(), baselines.make(replace(config, encoder_masks="paper")).eval()
    x = baselines.images(config)
    assert torch.equal(model(x).reconstruction, paper(x).reconstruction)
    assert not torch.allclose(model(x).encoder_masks, paper(x).encoder_masks)


def test_a_flat_mask_is_stretched_to_nothing_instead_of_nan():
    masks = torch.full((1, 2, 2, 2), 0.25)
    masks[0, 1, 0, 0] = 0.75
    assert stretch(masks).tolist() == [[[[0, 0], [0, 0]], [[1, 0], [0, 0]]]]


@pytest.mark.parametrize(("broadcast", "strides"), [((16, 8), (1, 1, 1)), ((8, 4), (2, 1)), ((4, 2), (2, 2, 1))])
@pytest.mark.parametrize("make", [baselines.slot_attention, baselines.bo_qsa])
def test_broadcast_decoder(make, broadcast, strides):
    config = make(broadcast=broadcast, decoder_strides=strides)
    model = baselines.make(config)
    w, (slots,) = weights(model.decoder), random_slots(config.dim)
    decoded = decode(model, slots)
    names = ["first.conv", *(f"rest.{layer}" for layer in range(len(strides)))]
    for image in range(2):
        layers = []
        for slot in slots[image].double().numpy():
            x = np.zeros((config.dim, *broadcast))
            for row, column in np.ndindex(*broadcast):
                x[:, row, column] = slot + edge_embedding(row, column, broadcast, w, "position.embed")
            for name, stride in zip(names[:-1], strides, strict=True):
                x = np.maximum(enlarge(x, w, name, stride), 0)
            layers.append(conv(x, w, names[-1]))
        assert_decoded(decoded, image, layers, darkest=-1)


def test_coordinates_run_from_corner_to_corner():
    rows, columns = coordinates(3, 5)
    assert rows[:, 0].tolist() == [-1, 0, 1]
    assert columns[0].tolist() == [-1, -0.5, 0, 0.5, 1]
    assert torch.equal(rows, rows[:, :1].expand(3, 5))
