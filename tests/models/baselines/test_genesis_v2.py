"""GENESIS-v2: the whole model, and each of its parts against the slow transcription."""

import math

import numpy as np
import pytest
import safetensors.torch
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributions import Normal, kl_divergence

from cocanet.config.baselines import GecoConfig, GenesisV2Config
from cocanet.config.serialization import from_dict, to_dict
from cocanet.models.baselines.genesis_v2 import (
    AutoregressivePrior,
    Gaussian,
    Geco,
    GenesisDecoder,
    GenesisV2,
    Posterior,
    UNet,
    break_sticks,
    divergence,
    first_width,
    likeness,
    limited,
    mixture_error,
)
from cocanet.models.baselines.parts import coordinates
from tests.models.baselines import genesis_transcription as reference
from tests.models.baselines.baselines import noise_images, random, tiny_config, tiny_model
from tests.models.baselines.transcription import sigmoid
from tests.reference.layers import weights

KERNELS = ("gaussian", "laplacian", "epanechnikov")
GOAL = 0.5655 * 3 * 32 * 32
STEP = 1e-5 * 64**2 / 32**2
ERRORS = [GOAL * share for share in (2.0, 1.5, 1.1, 0.999, 0.99, 0.9, 0.5, 0.1, 1.3, 0.2)] * 30
"""They make the average fall from above the goal to below it."""
# In and out of each convolution, as multiples of c, by the side of the images; the image itself has 3 channels.
DOWN = {32: (1, 2, 2, 2), 64: (1, 1, 2, 2, 2), 128: (1, 1, 1, 2, 2, 2)}
UP = {
    32: ((4, 2), (4, 2), (4, 1), (2, 1)),
    64: ((4, 2), (4, 2), (4, 1), (2, 1), (2, 1)),
    128: ((4, 2), (4, 2), (4, 1), (2, 1), (2, 1), (2, 1)),
}


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
    torch.testing.assert_close(out.reconstruction, (out.slot_images * out.decoder_masks[:, :, None]).sum(1))
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
    assert torch.equal(first.reconstruction, second.reconstruction)
    assert torch.equal(first.encoder_masks, second.encoder_masks)
    for index in (0, 3):
        alone = model(x[index : index + 1])
        for field in ("encoder_masks", "decoder_masks", "slots", "reconstruction", "divergence"):
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
    first.loss(first(x), x)  # A validation in between leaves no trace.
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
    assert {out.reconstruction.dtype, out.encoder_masks.dtype, out.divergence.dtype, loss.dtype} == {torch.float32}
    torch.testing.assert_close(out.encoder_masks.sum(1), torch.ones(3, 16, 16), atol=1e-5, rtol=0)
    loss.backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())


def test_images_of_another_size_are_refused():
    with pytest.raises(ValueError, match="takes images of 16×16 pixels; got 16×32"):
        tiny_model()(torch.rand(1, 3, 16, 32))


def scores(batch: int, pixels: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(batch, pixels, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def width(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("slots", "spread"), [(2, 1.0), (5, 0.3), (5, 3.0)])
def test_one_pass_agrees_with_the_slow_transcription(kernel, slots, spread):
    colours, draws = spread * random(3, 4, 30), scores(3, 30)
    ours = break_sticks(colours, draws, width(0.7), slots, kernel).exp()
    for index in range(3):
        expected = reference.break_sticks(colours[index].T.numpy(), draws[index].numpy(), 0.7, slots, kernel)
        np.testing.assert_allclose(ours[index].numpy(), expected, rtol=1e-10)


@settings(deadline=None, max_examples=30)
@given(st.integers(2, 12), st.floats(0.01, 100), st.floats(1e-3, 1e3), st.sampled_from(KERNELS), st.integers(0, 9))
def test_masks_sum_to_one_whatever_the_colours(slots, spread, breadth, kernel, seed):
    colours = spread * random(2, 3, 25, seed=seed).float()
    log_masks = break_sticks(colours, scores(2, 25, seed).float(), width(breadth).float(), slots, kernel)
    assert log_masks.isfinite().all()
    torch.testing.assert_close(log_masks.exp().sum(1), torch.ones(2, 25), atol=1e-5, rtol=0)


@pytest.mark.parametrize("kernel", KERNELS)
def test_gradients_of_colours_and_width(kernel):
    colours, draws, breadth = 0.3 * random(2, 3, 8), scores(2, 8), width(4.0)
    # Only the seeds themselves are clamped: there the true gradient is zero, as is the one that passes through.
    if kernel == "laplacian":
        # Its kink at the seed has no gradient to compare with, so there the seed is another pixel.
        one = random(2, 3, 1, seed=3)
        assert torch.autograd.gradcheck(
            lambda c, z, w: likeness(c, z, w, kernel), [t.requires_grad_() for t in (colours, one, breadth)]
        )
        return
    assert torch.autograd.gradcheck(
        lambda c, w: break_sticks(c, draws, w, 4, kernel), (colours.requires_grad_(), breadth.requires_grad_())
    )


@pytest.mark.parametrize("kernel", KERNELS)
def test_gradients_are_finite_where_colours_coincide(kernel):
    colours = torch.zeros(1, 3, 6, requires_grad=True)
    break_sticks(colours, scores(1, 6).float(), width(1.0).float(), 3, kernel).sum().backward()
    assert colours.grad.isfinite().all()


def test_the_clamp_lets_the_gradient_through():
    share = torch.tensor([[0.0, 0.5, 1.0]], requires_grad=True)
    clamped = limited(share)
    clamped.sum().backward()
    torch.testing.assert_close(clamped.detach(), torch.tensor([[0.01, 0.5, 0.99]]))
    assert torch.equal(share.grad, torch.ones(1, 3))


def test_a_seed_is_not_chosen_twice():
    # Eight far-apart colours: each mask takes one pixel, in the order of their scores, and the last what remains.
    colours = 100 * torch.eye(8).unsqueeze(0)
    draws = torch.tensor([[0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2]])
    owners = break_sticks(colours, draws, torch.tensor(1.0), 6).argmax(1)
    assert owners.tolist() == [[0, 1, 2, 3, 4, 5, 5, 5]]


def test_widths_before_training_halve_the_likeness_at_a_slots_share_of_the_square():
    # At the squared distance 1/K, a Gaussian kernel is at one half, and so is the Laplacian; the third at 1/K too.
    for slots in (4, 11):
        seed, pixel = torch.zeros(1, 1, 1), torch.full((1, 1, 1), math.sqrt(1 / slots))
        for kernel in KERNELS:
            value = likeness(pixel, seed, torch.tensor(first_width(kernel, slots)), kernel)
            assert float(value) == pytest.approx(0.5, abs=1e-5)


def test_masks_depend_on_coordinates_only_while_the_gate_is_shut():
    images, others = noise_images(), noise_images(seed=1)
    permuted = images.flatten(2)[..., torch.randperm(256, generator=torch.Generator().manual_seed(0))].view_as(images)
    for gate, same in ((None, True), (0.0, True), (1.0, False)):
        model = tiny_model(gate=gate).eval()
        masks = model(images).encoder_masks
        assert torch.equal(model(others).encoder_masks, masks) is same
        assert torch.equal(model(permuted).encoder_masks, masks) is same
        assert torch.equal(masks[0], masks[1]) is same


def test_masks_around_shut_gates_are_round():
    # At gate 0 the first mask is a Gaussian bump around its seed: the same function of distance in all directions.
    model = tiny_model().eval()
    first = model(noise_images(1)).encoder_masks[0, 0].flatten().detach()
    seed = model.scores[0].argmax()
    place = coordinates(16, 16).flatten(1)
    squared = (place - place[:, seed, None]).square().sum(0)
    expected = torch.exp(-squared * 4 * math.log(2)).clamp(0.01, 0.99)
    torch.testing.assert_close(first, expected, atol=1e-5, rtol=1e-5)


def gaussian(*shape: int, seed: int) -> Gaussian:
    return Gaussian(random(*shape, seed=seed), random(*shape, seed=seed + 100).abs() + 0.1)


def scene() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """An image, slot images and log masks in float64."""
    return random(2, 3, 4, 5, seed=1), random(2, 3, 3, 4, 5, seed=2), random(2, 3, 4, 5, seed=3).log_softmax(1)


def test_divergence_agrees_with_the_slow_transcription_and_with_torch():
    posterior, prior = gaussian(3, 4, 5, seed=0), gaussian(3, 4, 5, seed=1)
    sample = posterior.sample(random(3, 4, 5, seed=2))
    ours = divergence(posterior, prior, sample)
    per_number = Normal(*posterior).log_prob(sample) - Normal(*prior).log_prob(sample)
    torch.testing.assert_close(ours, per_number.sum((1, 2)))
    for i in range(3):
        expected = reference.divergence(
            sample[i].numpy(), [x[i].numpy() for x in posterior], [x[i].numpy() for x in prior]
        )
        assert float(ours[i]) == pytest.approx(expected, rel=1e-10)


def test_divergence_is_the_closed_form_on_average():
    posterior, prior = gaussian(1, 2, 3, seed=0), gaussian(1, 2, 3, seed=1)
    draws = 100_000
    many = Gaussian(*(x.expand(draws, -1, -1) for x in posterior))
    others = Gaussian(*(x.expand(draws, -1, -1) for x in prior))
    estimates = divergence(many, others, many.sample(random(draws, 2, 3, seed=5)))
    (m, s), (n, t) = posterior, prior
    closed = (torch.log(t / s) + (s**2 + (m - n) ** 2) / (2 * t**2) - 0.5).sum()
    torch.testing.assert_close(kl_divergence(Normal(m, s), Normal(n, t)).sum(), closed)
    error = estimates.std() / math.sqrt(draws)
    assert abs(float(estimates.mean() - closed)) < 4 * float(error)
    assert float(error) < 0.01 * float(closed)


def test_a_posterior_like_its_prior_does_not_diverge():
    prior = gaussian(2, 3, 4, seed=0)
    assert torch.equal(divergence(prior, prior, random(2, 3, 4, seed=1)), torch.zeros(2, dtype=torch.float64))


def test_mixture_error_agrees_with_the_slow_transcription():
    image, slot_images, log_masks = scene()
    ours = mixture_error(image, slot_images, log_masks, 0.7)
    for i in range(2):
        expected = reference.mixture_error(image[i].numpy(), slot_images[i].numpy(), log_masks[i].exp().numpy(), 0.7)
        assert float(ours[i]) == pytest.approx(expected, rel=1e-12)


def test_mixture_error_of_slots_that_hide_each_other_is_finite_and_has_a_gradient():
    image, slot_images, _ = scene()
    logits = torch.tensor([0.0, -1e4, -2e4]).view(1, 3, 1, 1).expand(2, 3, 4, 5).clone().requires_grad_()
    error = mixture_error(image.float(), slot_images.float(), logits.log_softmax(1), 0.7)
    error.sum().backward()
    assert error.isfinite().all()
    assert logits.grad.isfinite().all()


def test_the_goal_is_a_squared_error_of_0_0032():
    # With one slot that is wrong by r at every pixel: log(0.7 sqrt(2π)) + r² / (2 · 0.49) per number.
    image = torch.full((1, 3, 2, 2), 0.5, dtype=torch.float64)
    for squared, expected in ((0.0, 0.56226), (0.0032, 0.5655)):
        slot = (image + math.sqrt(squared)).unsqueeze(1)
        per_number = mixture_error(image, slot, image.new_zeros(1, 1, 2, 2), 0.7) / 12
        assert float(per_number) == pytest.approx(expected, abs=5e-5)


def test_gradients_of_error_and_divergence():
    image, slot_images, log_masks = (x[:1, ..., :2, :2].clone() for x in scene())
    assert torch.autograd.gradcheck(
        lambda s, m: mixture_error(image, s, m.log_softmax(1), 0.7),
        (slot_images.requires_grad_(), log_masks.requires_grad_()),
    )
    posterior, prior, noise = gaussian(1, 2, 3, seed=0), gaussian(1, 2, 3, seed=1), random(1, 2, 3, seed=2)
    values = [x.requires_grad_() for x in (*posterior, *prior)]
    assert torch.autograd.gradcheck(
        lambda m, s, n, t: divergence(Gaussian(m, s), Gaussian(n, t), Gaussian(m, s).sample(noise)), values
    )


def test_prior_agrees_with_the_slow_transcription():
    torch.manual_seed(0)
    prior, slots = AutoregressivePrior(6).double(), random(2, 5, 6)
    ours = prior(slots)
    for i in range(2):
        mean, deviation = reference.prior(slots[i].numpy(), weights(prior))
        np.testing.assert_allclose(ours.mean[i].detach().numpy(), mean, atol=1e-12)
        np.testing.assert_allclose(ours.deviation[i].detach().numpy(), deviation, atol=1e-12)


def test_prior_of_a_slot_depends_on_those_before_it_alone():
    torch.manual_seed(0)
    prior, slots = AutoregressivePrior(6), random(1, 5, 6).float()
    before = prior(slots).mean
    changed = slots.clone()
    changed[:, 2] += 1
    differs = (prior(changed).mean != before).any(-1)[0]
    assert differs.tolist() == [False, False, False, True, True]


def test_posterior_agrees_with_the_slow_transcription():
    torch.manual_seed(0)
    posterior, features = Posterior(8).double(), random(2, 8, 3, 4)
    masks = random(2, 4, 12, seed=1).softmax(1)
    ours = posterior(features, masks)
    seen = posterior.conv(features).flatten(2).detach().numpy()
    for i in range(2):
        mean, deviation = reference.posterior(seen[i], masks[i].numpy(), weights(posterior))
        np.testing.assert_allclose(ours.mean[i].detach().numpy(), mean, atol=1e-10)
        np.testing.assert_allclose(ours.deviation[i].detach().numpy(), deviation, atol=1e-10)


def course_of_beta(geco: Geco, errors: list[float]) -> list[float]:
    betas = []
    for error in errors:
        geco(torch.tensor(error), torch.tensor(1.0))
        betas.append(geco.beta.item())
    return betas


def test_beta_takes_the_course_of_the_slow_transcription():
    expected = reference.geco(ERRORS, GOAL, STEP, 1.0, 1e-10, 1e10)
    assert min(expected) < 0.5 * expected[0]
    assert max(expected[100:]) > 5 * min(expected)
    ours = course_of_beta(Geco(GecoConfig(), (32, 32)), ERRORS)
    assert ours == pytest.approx(expected, rel=1e-3)


def test_beta_stays_in_its_range():
    geco = Geco(GecoConfig(beta_range=(0.5, 2.0)), (32, 32))
    assert min(course_of_beta(geco, [100 * GOAL] * 50)) == 0.5
    assert max(course_of_beta(geco, [0.0] * 500)) == 2.0


def test_the_loss_has_the_beta_of_before_and_its_gradient():
    geco = Geco(GecoConfig(beta=3.0), (32, 32))
    error, divergence = torch.tensor(5000.0, requires_grad=True), torch.tensor(7.0, requires_grad=True)
    loss = geco(error, divergence)
    loss.backward()
    assert loss.item() == 5021
    assert (error.grad.item(), divergence.grad.item()) == (1, 3)
    assert geco.beta < 3


def test_evaluation_changes_nothing_in_geco():
    geco = Geco(GecoConfig(), (32, 32))
    course_of_beta(geco, ERRORS[:5])
    before = {name: value.clone() for name, value in geco.state_dict().items()}
    course_of_beta(geco.eval(), ERRORS)
    assert all(torch.equal(before[name], value) for name, value in geco.state_dict().items())


def test_geco_goes_on_from_its_state():
    whole = course_of_beta(Geco(GecoConfig(), (32, 32)), ERRORS)
    first, second = Geco(GecoConfig(), (32, 32)), Geco(GecoConfig(), (32, 32))
    begun = course_of_beta(first, ERRORS[:40])
    second.load_state_dict(first.state_dict())
    assert begun + course_of_beta(second, ERRORS[40:]) == whole
    assert set(first.state_dict()) == {"beta", "average", "begun"}


def block(x: torch.Tensor, weights: dict[str, torch.Tensor], name: str) -> torch.Tensor:
    x = F.conv2d(x, weights[f"{name}.0.weight"], padding=1)
    return F.relu(F.group_norm(x, 8, weights[f"{name}.1.weight"], weights[f"{name}.1.bias"]))


def unet_of_the_paper(x: torch.Tensor, weights: dict[str, torch.Tensor], blocks: int) -> torch.Tensor:
    """The specification line by line."""
    skips = []
    for n in range(blocks):
        skip = block(x, weights, f"down.{n}")
        skips.append(skip)
        x = skip if n == blocks - 1 else F.interpolate(skip, scale_factor=0.5, mode="nearest")
    shape, x = x.shape, x.flatten(1)
    for n in (0, 2, 4):
        x = F.relu(F.linear(x, weights[f"bottom.{n}.weight"], weights[f"bottom.{n}.bias"]))
    x = x.view(shape)
    for n in range(blocks):
        x = block(torch.cat((x, skips[-1 - n]), 1), weights, f"up.{n}")
        x = x if n == blocks - 1 else F.interpolate(x, scale_factor=2, mode="nearest")
    return x


@pytest.mark.parametrize("side", [32, 64, 128])
def test_layers_and_shape_of_the_unet(side):
    unet = UNet(side, 8)
    down = [tuple(block[0].weight.shape[:2]) for block in unet.down]
    up = [tuple(block[0].weight.shape[:2]) for block in unet.up]
    into = [3, *(8 * n for n in DOWN[side][:-1])]
    assert down == [(8 * out, inputs) for out, inputs in zip(DOWN[side], into, strict=True)]
    assert up == [(8 * out, 8 * inputs) for inputs, out in UP[side]]
    assert unet.bottom[0].in_features == 4 * 4 * 16
    out = unet(torch.rand(2, 3, side, side))
    assert out.shape == (2, 8, side, side)
    assert out.min() >= 0


@pytest.mark.parametrize(("side", "blocks"), [(16, 3), (32, 4), (64, 5)])
def test_unet_agrees_with_the_transcription(side, blocks):
    torch.manual_seed(0)
    unet, x = UNet(side, 8).double(), random(2, 3, side, side)
    torch.testing.assert_close(unet(x), unet_of_the_paper(x, dict(unet.state_dict()), blocks))


@pytest.mark.parametrize("side", [32, 64, 128])
def test_decoder_enlarges_a_grid_of_one_cell_in_sixteen(side):
    torch.manual_seed(0)
    decoder, slots = GenesisDecoder((side, side), 8), random(2, 3, 8).float()
    ours = decoder(slots)
    assert ours.shape == (2, 3, 4, side, side)
    cells = side // 16
    line = torch.linspace(-1, 1, cells)
    for image, slot in ((0, 0), (1, 2)):
        x = torch.empty(1, 10, cells, cells)
        x[0, :8] = slots[image, slot][:, None, None]
        x[0, 8], x[0, 9] = line[:, None], line[None]
        expected = decoder.layers(x)[0]
        torch.testing.assert_close(ours[image, slot], expected, atol=1e-5, rtol=1e-4)


def test_images_masks_and_reconstruction_of_the_slots():
    # Two channels a group, two cells a side.
    model = tiny_model(gate=1.0, image_size=(32, 32), features=16, slots=3).double().eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.decoder.parameters():
            if parameter.ndim == 1:
                parameter += 0.3 * torch.randn(parameter.shape, generator=generator)
        # The more do the slots differ, the less does a mistake hide.
        model.noise *= 3
        out = model(noise_images(2, side=32).double())
    state = weights(model.decoder)
    for image in range(2):
        layers = np.array([reference.decode(slot, state, cells=2) for slot in out.slots[image].numpy()])
        assert layers.shape == (3, 4, 32, 32)
        colours = sigmoid(layers[:, :3])
        shares = np.exp(layers[:, 3])
        masks = shares / shares.sum(0)
        np.testing.assert_allclose(out.slot_images[image], colours, atol=1e-10)
        np.testing.assert_allclose(out.decoder_masks[image], masks, atol=1e-10)
        np.testing.assert_allclose(out.log_masks[image], np.log(masks), atol=1e-9)
        np.testing.assert_allclose(out.reconstruction[image], (colours * masks[:, None]).sum(0), atol=1e-10)


def test_a_configuration_survives_as_json():
    config = tiny_config(kernel="laplacian", geco=GecoConfig(beta=0.5))
    plain = to_dict(config)
    assert plain["kind"] == "genesis-v2"
    assert from_dict(GenesisV2Config, plain, "here") == config


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image_size": (32, 64)}, "square images .* got 32×64"),
        ({"image_size": (48, 48)}, "power of two from 16; got 48×48"),
        ({"image_size": (8, 8)}, "got 8×8"),
        ({"slots": 1}, "slots must be at least 2; got 1"),
        ({"features": 12}, "multiple of 8 up to 64; got 12"),
        ({"features": 72}, "multiple of 8 up to 64; got 72"),
        ({"colours": 1}, "colours must be at least 2"),
        ({"pixel_deviation": 0.0}, "pixel_deviation must be positive; got 0.0"),
    ],
)
def test_bad_configurations_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        tiny_config(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"momentum": 1.0}, "momentum must be 0 or more and below 1; got 1.0"),
        ({"beta": 2.0, "beta_range": (0.1, 1.0)}, "beta must lie in its range"),
        ({"beta_range": (0.0, 1.0)}, "beta must lie in its range of positive numbers"),
        ({"step": 0.0}, "step must be positive"),
    ],
)
def test_bad_geco_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        GecoConfig(**changes)
