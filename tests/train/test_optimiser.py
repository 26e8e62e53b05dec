"""Optimisers and schedules of a stage, against torch's own and against formulas."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import cocanet
from cocanet.config import Adam, DataConfig, Muon, Preset, Schedule, Stage, TrainConfig
from cocanet.train.checkpoint import TrainState, read_checkpoint, save_checkpoint
from cocanet.train.losses import Objective
from cocanet.train.optimiser import MuonWithAdam, freeze, learning_rate_factor, make_optimiser, orthogonalise
from tests.tiny import images, small


def test_exponential_schedule():
    schedule = Schedule(warmup=0.01, half_life=0.1)
    assert learning_rate_factor(schedule, 4, 1000) == pytest.approx(0.5 * 0.5**0.04)
    assert learning_rate_factor(schedule, 100, 1000) == pytest.approx(0.5)
    assert learning_rate_factor(schedule, 300, 1000) == pytest.approx(0.125)


def test_cosine_schedule_ends_at_zero():
    schedule = Schedule(warmup=1 / 11, decay="cosine")
    assert learning_rate_factor(schedule, 9, 110) == pytest.approx(1)
    assert learning_rate_factor(schedule, 60, 110) == pytest.approx(0.5)
    assert learning_rate_factor(schedule, 110, 110) == pytest.approx(0)


def test_the_papers_schedule_is_slot_attentions():
    """10,000 steps of warm-up, and half the learning rate every 100,000 steps, in a run of 500,000."""
    for step in (0, 4_999, 9_999, 100_000, 499_999):
        expected = min(1, (step + 1) / 10_000) * 0.5 ** (step / 100_000)
        assert learning_rate_factor(Schedule(), step, 500_000) == pytest.approx(expected)


@given(st.sampled_from(["exponential", "cosine", "constant"]), st.floats(0, 1), st.integers(100, 10**6))
def test_a_schedule_has_one_shape_for_any_number_of_steps(decay, share, steps):
    schedule = Schedule(warmup=0.1, decay=decay)
    whole = learning_rate_factor(schedule, share * 10**6, 10**6)
    assert learning_rate_factor(schedule, share * steps, steps) == pytest.approx(whole, abs=0.11)


def test_freezing_leaves_gradients_to_the_named_parts():
    model = cocanet.build(small(), seed=0)
    freeze(model, ("decoder", "backbone"))
    trained = {name.split(".")[0] for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert trained == {"decoder", "backbone"}
    assert len(make_optimiser(model, Stage()).param_groups[0]["params"]) < len(list(model.parameters()))
    freeze(model, ())
    assert all(parameter.requires_grad for parameter in model.parameters())
    with pytest.raises(ValueError, match=r"trains 'encoder', .* it has backbone, hierarchy, decoder"):
        freeze(model, ("encoder",))


def parameter(*shape: int, seed: int = 0) -> nn.Parameter:
    return nn.Parameter(torch.randn(*shape, generator=torch.Generator().manual_seed(seed)))


def with_gradient(weight: nn.Parameter, step: int) -> nn.Parameter:
    weight.grad = torch.randn(weight.shape, generator=torch.Generator().manual_seed(100 + step))
    return weight


@pytest.mark.parametrize("shape", [(20, 20), (16, 40), (40, 16)])
def test_matrices_become_nearly_orthogonal(shape):
    """Singular vectors stay, singular values end near 1."""
    matrices = torch.stack([parameter(*shape, seed=seed).detach() for seed in range(3)]).double()
    ours = orthogonalise(matrices)
    for matrix, found in zip(matrices, ours, strict=True):
        left, _, right = torch.linalg.svd(matrix, full_matrices=False)
        values = left.mT @ found @ right.mT
        assert (values - values.diag().diag()).abs().max() < 1e-6
        assert 0.3 < values.diag().min() <= values.diag().max() < 1.3
        torch.testing.assert_close(orthogonalise(matrix[None])[0], found)


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="this torch has no Muon to compare with")
@pytest.mark.parametrize("shape", [(24, 24), (16, 48), (48, 16)])
def test_steps_are_those_of_torchs_muon(shape):
    """Torch iterates in bfloat16, which has three digits."""
    ours, theirs = parameter(*shape), parameter(*shape)
    first = MuonWithAdam([ours], Muon(learning_rate=0.02, momentum=0.9))
    second = torch.optim.Muon([theirs], lr=0.02, momentum=0.9, weight_decay=0.0)
    start = ours.detach().clone()
    for step in range(4):
        with_gradient(ours, step)
        with_gradient(theirs, step)
        first.step()
        second.step()
    change = (theirs - start).norm()
    assert change > 0.1
    assert (ours - theirs).norm() < 0.03 * change


def test_a_convolution_kernel_is_a_matrix_of_its_outputs():
    kernel = parameter(16, 8, 3, 3)
    matrix = nn.Parameter(kernel.detach().flatten(1).clone())
    for weight in (kernel, matrix):
        optimiser = MuonWithAdam([weight], Muon())
        for step in range(3):
            weight.grad = torch.randn(16, 72, generator=torch.Generator().manual_seed(step)).view_as(weight)
            optimiser.step()
    torch.testing.assert_close(kernel.flatten(1), matrix)


def test_everything_but_matrices_has_adam():
    """Biases, and matrices of fewer than 16 rows or columns."""
    ours = [parameter(16, 16), parameter(16), parameter(4, 16), parameter(16, 3, 2, 2)]
    theirs = [nn.Parameter(each.detach().clone()) for each in ours[1:]]
    first = MuonWithAdam(ours, Muon(adam_learning_rate=1e-3))
    second = torch.optim.Adam(theirs, lr=1e-3)
    for step in range(3):
        for each in (*ours, *theirs):
            with_gradient(each, step)
        first.step()
        second.step()
    for mine, other in zip(ours[1:], theirs, strict=True):
        torch.testing.assert_close(mine, other)
    assert set(first.state[ours[0]]) == {"momentum"}


def test_muon_serves_a_model_and_skips_what_has_no_gradient():
    model = cocanet.build(small(), seed=0)
    stage = Stage(optimiser=Muon())
    optimiser = make_optimiser(model, stage)
    by_muon = {id(each) for group in optimiser.param_groups if group["muon"] for each in group["params"]}
    names = {name for name, each in model.named_parameters() if id(each) in by_muon}
    assert "hierarchy.levels.0.coca.query.weight" in names
    assert not any(name.endswith("bias") for name in names)
    before = {name: each.detach().clone() for name, each in model.named_parameters()}
    Objective(model, stage)(images(small())).backward()
    model.decoder.zero_grad()
    optimiser.step()
    changed = {name for name, each in model.named_parameters() if not torch.equal(each, before[name])}
    assert "hierarchy.levels.0.coca.query.weight" in changed
    assert not any(name.startswith("decoder") for name in changed)


@pytest.mark.parametrize("optimiser", [Adam(), Muon()], ids=["adam", "muon"])
def test_an_optimiser_survives_a_checkpoint(tmp_path, optimiser):
    stage, x = Stage(optimiser=optimiser), images(small())
    preset = Preset("tiny", small(), DataConfig("noise"), TrainConfig(stages=(stage,)))

    def take_steps(model: nn.Module, made: torch.optim.Optimizer, count: int) -> None:
        for _ in range(count):
            made.zero_grad()
            Objective(model, stage)(x).backward()
            made.step()

    whole = cocanet.build(preset, seed=0)
    take_steps(whole, make_optimiser(whole, stage), 4)
    first = cocanet.build(preset, seed=0)
    made = make_optimiser(first, stage)
    take_steps(first, made, 2)
    save_checkpoint(tmp_path / "last.safetensors", preset, first, made, TrainState(step=2))
    second = cocanet.build(preset, seed=9)
    again = make_optimiser(second, stage)
    found = read_checkpoint(tmp_path / "last.safetensors")
    assert found.state == TrainState(step=2)
    found.restore(second, again)
    take_steps(second, again, 2)
    for name, weight in whole.state_dict().items():
        assert torch.equal(second.state_dict()[name], weight), name


def test_bad_settings_are_named():
    mistakes = [
        (lambda: Adam(learning_rate=0.0), "learning_rate must be positive"),
        (lambda: Adam(weight_decay=-1.0), "weight_decay must be 0 or more"),
        (lambda: Muon(momentum=1.0), "momentum must be at least 0 and less than 1; got 1.0"),
        (lambda: Schedule(warmup=1.5), "warmup is a share of the stage; expected 0 to 1, got 1.5"),
        (lambda: Schedule(half_life=0.0), "half_life must be positive"),
        (lambda: replace(Stage(), losses=()), "at least one loss"),
    ]
    for mistake, message in mistakes:
        with pytest.raises(ValueError, match=message):
            mistake()
