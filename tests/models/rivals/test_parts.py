"""What the rivals with iterative attention promise, and the parts that several share against the slow transcription."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import safetensors.torch
import torch
import torch.nn.functional as F
from sklearn.metrics import adjusted_rand_score
from torch import nn

from cocanet.config.plain import from_plain, to_plain
from cocanet.config.rivals import BoQsaConfig, InvSaConfig, SlotAttentionConfig
from cocanet.data.scenes import make_scenes
from cocanet.models.rivals.parts import coordinates, stretch
from cocanet.train.loss import colour_code
from tests.models.rivals import rivals, transcription
from tests.models.rivals.rivals import assert_close, assert_painted, noise_images, random_slots, seen, tiny_model
from tests.models.rivals.transcription import (
    conv,
    edge_embedding,
    invariant_round,
    layer_norm,
    look,
    mlp,
    slot_attention,
    weights,
)


@dataclass(frozen=True)
class Held:
    model: SlotAttentionConfig | InvSaConfig | BoQsaConfig


EACH = pytest.mark.parametrize("config", rivals.ALL.values(), ids=rivals.ALL)


@EACH
@pytest.mark.parametrize("batch", [1, 3])
def test_shapes_sums_and_gradients(config, batch):
    model, x = rivals.make(config), rivals.images(config, batch)
    out = model(x)
    assert out.slots.shape[:2] == (batch, 3)
    assert out.slot_images.shape == (batch, 3, 3, 16, 8)
    for masks in (out.encoder_masks, out.decoder_masks):
        assert masks.shape == (batch, 3, 16, 8)
        assert masks.min() >= 0
        torch.testing.assert_close(masks.sum(1), torch.ones(batch, 16, 8), atol=1e-5, rtol=0)
    torch.testing.assert_close(out.mixture, (out.slot_images * out.decoder_masks.unsqueeze(2)).sum(1))
    assert out.in_use.all()
    model.loss(out, x).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


@EACH
def test_encoder_masks_can_be_taught(config):
    model, x = rivals.make(config), rivals.images(config)
    model(x).encoder_masks[:, 0].square().mean().backward()
    first = next(model.encoder.parameters())
    assert first.grad is not None
    assert first.grad.abs().max() > 0


@EACH
def test_loss_compares_the_mixture_with_the_image(config):
    model, x = rivals.make(config), rivals.images(config)
    out = model(x)
    error = (out.mixture - x) ** 2
    if config.kind == "inv-sa":
        expected = sum(error[image].sum() for image in range(2)) / 2
    else:
        expected = 4 * error.sum() / error.numel()
    torch.testing.assert_close(model.loss(out, x), expected)
    assert model.loss(replace(out, mixture=x), x) == 0


@EACH
def test_evaluation_repeats_and_does_not_depend_on_the_batch(config):
    model, x = rivals.make(config).eval(), rivals.images(config, 3)
    before = torch.random.get_rng_state()
    both, again, alone = model(x), model(x), model(x[1:2])
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(both.mixture, again.mixture)
    torch.testing.assert_close(both.mixture[1:2], alone.mixture)
    torch.testing.assert_close(both.encoder_masks[1:2], alone.encoder_masks)
    turned = model(x.flip(0))
    torch.testing.assert_close(both.slots, turned.slots.flip(0))
    other = rivals.make(config, seed=1).eval()
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(x).mixture, both.mixture)


@EACH
def test_training_draws_anew_for_each_image_from_torchs_generator(config):
    model = rivals.make(config).train()
    x = rivals.images(config, 1).expand(2, -1, -1, -1)
    torch.manual_seed(0)
    first, second = model(x).slots, model(x).slots
    torch.manual_seed(0)
    assert torch.equal(model(x).slots, first)
    assert (first - second).abs().max() > 1e-4
    assert (first[0] - first[1]).abs().max() > 1e-4


@EACH
def test_state_round_trips_through_a_file(config, tmp_path):
    model, x = rivals.make(config), rivals.images(config)
    model.anneal(0.05)
    safetensors.torch.save_file(model.state_dict(), tmp_path / "weights.safetensors")
    other = rivals.make(config, seed=1)
    assert not torch.equal(other.eval()(x).mixture, model.eval()(x).mixture)
    other.load_state_dict(safetensors.torch.load_file(tmp_path / "weights.safetensors"))
    for ours, theirs in ((model.train(), other.train()), (model.eval(), other.eval())):
        outputs = []
        for each in (ours, theirs):
            torch.manual_seed(3)
            outputs.append(each(x).mixture)
        assert torch.equal(*outputs)


@EACH
def test_evaluation_changes_no_state(config):
    model = rivals.make(config).eval()
    model.anneal(0.05)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with torch.inference_mode():
        model(rivals.images(config))
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


@EACH
def test_images_of_another_size_are_refused(config):
    with pytest.raises(ValueError, match="takes images of 16×8 pixels; got 8×16"):
        rivals.make(config)(torch.rand(1, 3, 8, 16))


@EACH
def test_works_under_autocast(config):
    model, x = rivals.make(config), rivals.images(config)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(x)
    assert out.mixture.dtype == torch.float32
    torch.testing.assert_close(out.encoder_masks.sum(1), torch.ones(2, 16, 8), atol=1e-5, rtol=0)
    model.loss(out, x).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


@EACH
def test_configuration_as_plain_json_and_back(config):
    held = Held(config)
    assert from_plain(Held, to_plain(held), "here") == held


@pytest.mark.parametrize(
    ("make", "changes", "message"),
    [
        (rivals.slot_attention, {"decoder_strides": (2, 2)}, "the decoder makes 32×16 images; expected 16×8"),
        (rivals.slot_attention, {"decoder_strides": ()}, r"the decoder needs at least one layer .*got \(\)"),
        (rivals.slot_attention, {"encoder_strides": (2, 0)}, r"the encoder needs .* got \(2, 0\)"),
        (rivals.slot_attention, {"encoder_strides": (3,)}, "shrinks by 3, which does not divide 16×8"),
        (rivals.slot_attention, {"iterations": 0}, "iterations must be positive; got 0"),
        (rivals.inv_sa, {"decoder_kernel": 4}, "must be odd to keep the resolution; got 4"),
        (rivals.inv_sa, {"scale_unit": 0.0}, "scale_unit must be positive; got 0"),
        (rivals.bo_qsa, {"drop_path": 1.0}, "drop_path must be .* got 1.0"),
        (rivals.bo_qsa, {"noisy_share": -0.1}, "noisy_share must lie between 0 and 1; got -0.1"),
    ],
)
def test_bad_configurations_are_refused(make, changes, message):
    with pytest.raises(ValueError, match=message):
        make(**changes)


@pytest.mark.parametrize("make", [SlotAttentionConfig, InvSaConfig, BoQsaConfig])
def test_learns_a_handful_of_tetrominoes(make):
    narrow = {"decoder_channels": 16} if make is InvSaConfig else {}
    shape = {"channels": 16, "encoder_strides": (2, 2), "decoder_strides": (2, 2), "dim": 16, "hidden": 32}
    config = make((32, 32), 4, broadcast=(8, 8), **shape, **narrow)
    scenes = make_scenes("tetrominoes", count=4, seed=0)
    x = torch.stack([torch.from_numpy(scenes[index].image) for index in range(4)]).permute(0, 3, 1, 2) / 255
    torch.manual_seed(0)
    model = rivals.CLASSES[config.kind](config)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)

    def error() -> float:
        with torch.no_grad():
            return float((model.eval()(x).mixture - x).square().mean())

    before, steps = error(), 120
    for step in range(steps):
        model.train().anneal(step / steps)
        optimiser.zero_grad()
        model.loss(model(x), x).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    one_colour = float((x - x.mean((0, 2, 3), keepdim=True)).square().mean())
    assert error() < 0.5 * before
    assert error() < 0.95 * one_colour


def make_faint(*layers: nn.Module) -> None:
    """Shrink what layers put out, so that the ε of a normalisation after them counts."""
    with torch.no_grad():
        for layer in layers:
            for parameter in layer.parameters():
                parameter *= 0.02


@pytest.mark.parametrize("strides", [(1, 1, 1, 1), (2, 1)])
@pytest.mark.parametrize(("make", "eps"), [(rivals.slot_attention, 1e-3), (rivals.bo_qsa, 1e-5)])
def test_slots_attend_to_convolved_pixels_with_their_place(make, eps, strides):
    config = make(encoder_strides=strides)
    model, x = rivals.make(config).eval(), rivals.images(config)
    encoder = model.encoder
    make_faint(encoder.look.layers[-1], encoder.position, encoder.mlp.outer)
    found, w = seen(model, model.iteration, x), weights(model)
    for image in range(2):
        pixels = 2 * x[image].double().numpy() - 1
        features = look(pixels, w, "encoder.look.layers", strides, rectify_last=True)
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
        model, x = rivals.make(rivals.ALL[name]), rivals.images(rivals.ALL[name])
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
    config = replace(rivals.ALL[name], iterations=iterations, **small)
    model, x = rivals.make(config).eval(), rivals.images(config, 1)
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


def test_the_hidden_state_is_the_slot_and_the_input_what_it_took_up():
    update = rivals.make(rivals.inv_sa()).update
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


@pytest.mark.parametrize(("broadcast", "strides"), [((16, 8), (1, 1, 1)), ((8, 4), (2, 1)), ((4, 2), (2, 2, 1))])
@pytest.mark.parametrize("make", [rivals.slot_attention, rivals.bo_qsa])
def test_broadcast_decoder(make, broadcast, strides):
    config = make(broadcast=broadcast, decoder_strides=strides)
    model = rivals.make(config)
    w, (slots,) = weights(model.decoder), random_slots(config.dim)
    painting = model.paint(slots)
    names = ["first.conv", *(f"rest.{layer}" for layer in range(len(strides)))]
    for image in range(2):
        layers = []
        for slot in slots[image].double().numpy():
            x = np.zeros((config.dim, *broadcast))
            for row, column in np.ndindex(*broadcast):
                x[:, row, column] = slot + edge_embedding(row, column, broadcast, w, "position.embed")
            for name, stride in zip(names[:-1], strides, strict=True):
                x = np.maximum(transcription.enlarge(x, w, name, stride), 0)
            layers.append(conv(x, w, names[-1]))
        assert_painted(painting, image, layers, darkest=-1)


def test_coordinates_run_from_corner_to_corner():
    rows, columns = coordinates(3, 5)
    assert rows[:, 0].tolist() == [-1, 0, 1]
    assert columns[0].tolist() == [-1, -0.5, 0, 0.5, 1]
    assert torch.equal(rows, rows[:, :1].expand(3, 5))


@pytest.mark.parametrize("make", [SlotAttentionConfig, InvSaConfig, BoQsaConfig])
def test_masks_learn_to_part_a_handful_of_tetrominoes(make):
    """By the colour code, which the trainer offers to all models; reconstruction takes hours to part anything."""
    narrow = {"decoder_channels": 16} if make is InvSaConfig else {}
    shape = {"channels": 16, "encoder_strides": (1, 2), "decoder_strides": (2, 2), "dim": 16, "hidden": 32}
    config = make((32, 32), 4, broadcast=(8, 8), **shape, **narrow)
    scenes = [make_scenes("tetrominoes", count=4, seed=0)[index] for index in range(4)]
    x = torch.stack([torch.from_numpy(scene.image) for scene in scenes]).permute(0, 3, 1, 2) / 255
    torch.manual_seed(0)
    model = rivals.CLASSES[config.kind](config)
    optimiser = torch.optim.Adam(model.parameters(), lr=4e-3)

    def agreement(side: str) -> float:
        """Mean ARI of hard masks with the truth: of all pixels for the encoder, of the decoder's within objects."""
        with torch.no_grad():
            slots = getattr(model.eval()(x), f"{side}_masks").argmax(1).numpy()
        parts = [scene.labels >= (side == "decoder") for scene in scenes]
        pairs = zip(scenes, slots, parts, strict=True)
        return sum(adjusted_rand_score(scene.labels[part], slot[part]) for scene, slot, part in pairs) / 4

    before = {side: agreement(side) for side in ("encoder", "decoder")}
    for _ in range(120):
        out = model.train()(x)
        loss = sum(colour_code(masks, x, 0.01, 1e-3) for masks in (out.encoder_masks, out.decoder_masks))
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    assert agreement("encoder") > max(0.5, before["encoder"] + 0.4)
    assert agreement("decoder") > max(0.15, before["decoder"] + 0.1)
