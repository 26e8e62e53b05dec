"""What Slot Attention's slots and weights begin with."""

import math

import numpy as np
import torch
from scipy import stats

from tests.models.baselines import baselines
from tests.models.baselines.baselines import SURELY_NOT, WIDE, assert_recurrent, assert_uniform, assert_xavier, new


def test_weights_of_slot_attention():
    model = new(baselines.slot_attention(**WIDE))
    assert_recurrent(model.iteration.update.gru)
    for name, parameter in model.named_parameters():
        if parameter.ndim == 1:
            begin = 1.0 if name.endswith("norm.weight") else 0.0
            assert (parameter == begin).all(), name
        elif not name.endswith("weight_hh"):
            assert_xavier(parameter)


def test_slots_of_slot_attention_come_from_one_gaussian():
    model = new(baselines.slot_attention(**WIDE))
    for parameter in (model.mean, model.log_deviation):
        assert parameter.numel() == 256  # the same for all slots
        assert_uniform(parameter, math.sqrt(6 / (1 + 256)))
    model = new(baselines.slot_attention()).train()
    with torch.no_grad():
        model.mean.copy_(torch.tensor([-2.0, -1.0, 0.0, 1.0, 2.0]))
        model.log_deviation.copy_(torch.tensor([0.1, 0.5, 1.0, 2.0, 10.0]).log())
        torch.manual_seed(0)
        slots = model.first_slots(3000)
    draws = (slots.double() - torch.arange(-2, 3)) / torch.tensor([0.1, 0.5, 1.0, 2.0, 10.0])
    assert stats.kstest(draws.flatten().numpy(), "norm").pvalue > SURELY_NOT
    together = draws.flatten(1)
    np.testing.assert_allclose(np.cov(together.numpy(), rowvar=False), np.eye(15), atol=0.15)
    assert abs((together[1:] * together[:-1]).mean()) < 0.03


@torch.no_grad()
def test_slots_of_slot_attention_in_evaluation_are_one_draw_under_the_learned_gaussian():
    model = new(baselines.slot_attention()).eval()
    before = (model.first_slots(2) - model.mean) / model.log_deviation.exp()
    model.mean += 3
    model.log_deviation += math.log(2)
    torch.testing.assert_close(model.first_slots(2), model.mean + model.log_deviation.exp() * before)
    assert torch.equal(before[0], before[1])
    assert min((before[0, i] - before[0, j]).abs().max() for i, j in ((0, 1), (0, 2), (1, 2))) > 0.1
