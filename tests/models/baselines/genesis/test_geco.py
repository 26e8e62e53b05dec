import pytest
import torch

from cocanet.config.rivals import GecoConfig
from cocanet.models.baselines.geco import Geco
from tests.models.baselines.genesis import reference

GOAL = 0.5655 * 3 * 32 * 32
STEP = 1e-5 * 64**2 / 32**2
ERRORS = [GOAL * share for share in (2.0, 1.5, 1.1, 0.999, 0.99, 0.9, 0.5, 0.1, 1.3, 0.2)] * 30
"""They make the average fall from above the goal to below it."""


def course(geco: Geco, errors: list[float]) -> list[float]:
    betas = []
    for error in errors:
        geco(torch.tensor(error), torch.tensor(1.0))
        betas.append(geco.beta.item())
    return betas


def test_beta_takes_the_course_of_the_slow_transcription():
    expected = reference.geco(ERRORS, GOAL, STEP, 1.0, 1e-10, 1e10)
    assert min(expected) < 0.5 * expected[0]
    assert max(expected[100:]) > 5 * min(expected)
    ours = course(Geco(GecoConfig(), (32, 32)), ERRORS)
    assert ours == pytest.approx(expected, rel=1e-3)


def test_beta_stays_in_its_range():
    geco = Geco(GecoConfig(beta_range=(0.5, 2.0)), (32, 32))
    assert min(course(geco, [100 * GOAL] * 50)) == 0.5
    assert max(course(geco, [0.0] * 500)) == 2.0


def test_the_loss_has_the_beta_of_before_and_its_gradient():
    geco = Geco(GecoConfig(beta=3.0), (32, 32))
    error, divergence = torch.tensor(5000.0, requires_grad=True), torch.tensor(7.0, requires_grad=True)
    loss = geco(error, divergence)
    loss.backward()
    assert loss.item() == 5021
    assert (error.grad.item(), divergence.grad.item()) == (1, 3)
    assert geco.beta < 3


def test_evaluation_changes_nothing():
    geco = Geco(GecoConfig(), (32, 32))
    course(geco, ERRORS[:5])
    before = {name: value.clone() for name, value in geco.state_dict().items()}
    course(geco.eval(), ERRORS)
    assert all(torch.equal(before[name], value) for name, value in geco.state_dict().items())


def test_it_goes_on_from_its_state():
    whole = course(Geco(GecoConfig(), (32, 32)), ERRORS)
    first, second = Geco(GecoConfig(), (32, 32)), Geco(GecoConfig(), (32, 32))
    begun = course(first, ERRORS[:40])
    second.load_state_dict(first.state_dict())
    assert begun + course(second, ERRORS[40:]) == whole
    assert set(first.state_dict()) == {"beta", "average", "begun"}
