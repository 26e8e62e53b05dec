import math

import numpy as np
import pytest
import safetensors.torch
import torch
from sklearn.metrics import adjusted_rand_score

from cocanet.data.scenes import make_scenes
from cocanet.models.baselines.genesis_v2 import GenesisV2
from cocanet.train.loss import colour_code
from tests.models.baselines.genesis import reference
from tests.models.baselines.genesis.tiny import noise_images, tiny_model


def steps(model: GenesisV2, optimiser: torch.optim.Optimizer, images: torch.Tensor, numbers: range) -> list[float]:
    """Training steps that each seed their own draws, as the trainer's do."""
    losses = []
    for number in numbers:
        torch.manual_seed(number)
        loss = model.loss(model(images), images)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def adam(model: GenesisV2, rate: float = 1e-3) -> torch.optim.Adam:
    return torch.optim.Adam(model.parameters(), rate)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("gate", [0.0, 2.0])
def test_shapes_sums_and_gradients(batch, gate):
    model, x = tiny_model(gate=gate), noise_images(batch)
    out = model(x)
    assert out.slots.shape == (batch, 4, 8)
    assert out.slot_images.shape == (batch, 4, 3, 16, 16)
    for masks in (out.encoder_masks, out.decoder_masks):
        assert masks.shape == (batch, 4, 16, 16)
        torch.testing.assert_close(masks.sum(1), torch.ones(batch, 16, 16), atol=1e-5, rtol=0)
    torch.testing.assert_close(out.log_masks.exp(), out.decoder_masks)
    torch.testing.assert_close(out.mixture, (out.slot_images * out.decoder_masks[:, :, None]).sum(1))
    assert out.in_use.all()
    model.loss(out, x).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        shut = gate == 0 and name.startswith("colouring.head")
        assert bool(parameter.grad.any()) is not shut, name


def test_the_loss_is_the_error_plus_beta_times_the_divergence():
    model, x = tiny_model(gate=1.0).double().eval(), noise_images(2).double()
    model.geco.beta.fill_(0.3)
    out = model(x)
    errors = [
        reference.mixture_error(*(t[i].detach().numpy() for t in (x, out.slot_images, out.decoder_masks)), 0.7)
        for i in range(2)
    ]
    expected = np.mean(errors) + 0.3 * out.divergence.mean().item()
    assert model.loss(out, x).item() == pytest.approx(expected, rel=1e-12)


def test_slots_are_what_the_divergence_and_the_pictures_are_of():
    model, x = tiny_model(gate=1.0).double().eval(), noise_images(2).double()
    out = model(x)
    posterior = model.posterior(model.unet(x), out.encoder_masks.flatten(2))
    torch.testing.assert_close(out.slots, posterior.mean + posterior.deviation * model.noise)
    prior = model.prior(out.slots)
    for i in range(2):
        mine, theirs = ([part[i].detach().numpy() for part in kind] for kind in (posterior, prior))
        expected = reference.divergence(out.slots[i].detach().numpy(), mine, theirs)
        assert out.divergence[i].item() == pytest.approx(expected, rel=1e-10)
    layers = model.decoder(out.slots)
    torch.testing.assert_close(out.slot_images, layers[:, :, :3].sigmoid())
    torch.testing.assert_close(out.decoder_masks, layers[:, :, 3].softmax(1))


def test_evaluation_is_deterministic_and_an_image_is_the_same_in_any_batch():
    model, x = tiny_model(gate=1.0).eval(), noise_images(5)
    before = torch.get_rng_state()
    first, second = model(x), model(x)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first.mixture, second.mixture)
    assert torch.equal(first.encoder_masks, second.encoder_masks)
    for index in (0, 3):
        alone = model(x[index : index + 1])
        for field in ("encoder_masks", "decoder_masks", "slots", "mixture", "divergence"):
            torch.testing.assert_close(getattr(alone, field)[0], getattr(first, field)[index], atol=1e-5, rtol=1e-5)


def test_training_draws_afresh_for_each_image_from_torchs_generator():
    model, x = tiny_model(gate=1.0).train(), noise_images(1).expand(2, -1, -1, -1)
    torch.manual_seed(0)
    first, second = model(x), model(x)
    torch.manual_seed(0)
    again = model(x)
    assert torch.equal(first.slots, again.slots)
    assert not torch.equal(first.slots, second.slots)
    for field in ("encoder_masks", "slots"):
        assert not torch.equal(getattr(first, field)[0], getattr(first, field)[1])


def test_beta_moves_in_training_and_is_constant_in_evaluation():
    model, x = tiny_model(), noise_images()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    model.eval()
    for _ in range(3):
        model.loss(model(x), x)
    assert all(torch.equal(state[name], value) for name, value in model.state_dict().items())
    model.train()
    model(x)
    assert torch.equal(model.geco.beta, state["geco.beta"])
    model.loss(model(x), x)
    assert model.geco.beta != state["geco.beta"]


def test_a_checkpoint_goes_on_bit_for_bit():
    x = noise_images()
    whole = tiny_model(gate=1.0)
    expected = steps(whole, adam(whole), x, range(8))
    first, second = tiny_model(gate=1.0), tiny_model(seed=9)
    optimiser, resumed = adam(first), adam(second)
    begun = steps(first, optimiser, x, range(4))
    first.eval()
    first.loss(first(x), x)  # A look in between leaves no trace.
    tensors = safetensors.torch.load(safetensors.torch.save(dict(first.state_dict())))
    assert all(bool(value.isfinite().all()) for value in tensors.values())
    second.load_state_dict(tensors)
    resumed.load_state_dict(optimiser.state_dict())
    assert begun + steps(second, resumed, x, range(4, 8)) == expected
    for name, value in whole.state_dict().items():
        assert torch.equal(second.state_dict()[name], value), name


def test_the_state_holds_what_training_carries_and_no_constants():
    buffers = set(tiny_model().state_dict()) - {name for name, _ in tiny_model().named_parameters()}
    assert buffers == {"geco.beta", "geco.average", "geco.begun"}


def test_works_under_autocast():
    model, x = tiny_model(gate=1.0), noise_images()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(x)
        loss = model.loss(out, x)
    assert {out.mixture.dtype, out.encoder_masks.dtype, out.divergence.dtype, loss.dtype} == {torch.float32}
    torch.testing.assert_close(out.encoder_masks.sum(1), torch.ones(3, 16, 16), atol=1e-5, rtol=0)
    loss.backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())


def test_images_of_another_size_are_refused():
    with pytest.raises(ValueError, match="takes images of 16×16 pixels; got 16×32"):
        tiny_model()(torch.rand(1, 3, 16, 32))


def test_it_learns_tetrominoes():
    source = make_scenes("tetrominoes", count=64, seed=0)
    stack = np.stack([source[index].image for index in range(64)])
    images = torch.from_numpy(stack).permute(0, 3, 1, 2).float() / 255
    model = tiny_model(image_size=(32, 32), features=16)
    optimiser = adam(model, 3e-3)
    losses = []
    for number in range(12):
        batch = images[16 * (number % 4) :][:16]
        losses += steps(model, optimiser, batch, range(number, number + 1))
    # A perfect likelihood with a deviation of 0.7; what lies above it can be learned.
    floor = 3 * 32 * 32 * math.log(0.7 * math.sqrt(2 * math.pi))
    assert np.mean(losses[-4:]) - floor < 0.75 * (np.mean(losses[:4]) - floor)
    assert model.colouring.gate != 0


def test_masks_learn_to_part_tetrominoes():
    """By the colour code, which the trainer offers to all models."""
    source = make_scenes("tetrominoes", count=4, seed=0)
    scenes = [source[index] for index in range(4)]
    images = torch.from_numpy(np.stack([scene.image for scene in scenes])).permute(0, 3, 1, 2).float() / 255
    model = tiny_model(image_size=(32, 32), features=16, gate=1.0)
    optimiser = adam(model, 3e-3)

    def agreement() -> float:
        with torch.no_grad():
            slots = model.eval()(images).encoder_masks.argmax(1).numpy()
        return np.mean([adjusted_rand_score(s.labels.ravel(), k.ravel()) for s, k in zip(scenes, slots, strict=True)])

    before = agreement()
    for number in range(100):
        torch.manual_seed(number)
        loss = colour_code(model.train()(images).encoder_masks, images, 0.01, 1e-3)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert agreement() > max(0.4, before + 0.35)
