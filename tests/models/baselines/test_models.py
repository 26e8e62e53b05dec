"""What every rival with iterative attention promises."""

from dataclasses import dataclass, replace

import pytest
import safetensors.torch
import torch
from sklearn.metrics import adjusted_rand_score

from cocanet.config_file import from_plain, to_plain
from cocanet.data.scenes import make_scenes
from cocanet.models.baselines.config import BoQsaConfig, InvSaConfig, SlotAttentionConfig
from cocanet.train.loss import colour_code
from tests.models.baselines import rivals


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
