import pytest
import torch

from cocanet.config import TokenDecoderConfig
from cocanet.models.tokens.transformer import Block, Transformer
from tests.models.tokens import transcription
from tests.reference.layers import weights

CONFIG = TokenDecoderConfig(vocabulary=7, dim=8, blocks=2, heads=2, dropout=0.0)


@pytest.mark.parametrize("first", [True, False])
def test_a_block_is_its_equations(first):
    torch.manual_seed(0)
    one = Block(CONFIG, first).double()
    for parameter in one.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    x, slots = torch.randn(5, 8, dtype=torch.float64), torch.randn(3, 8, dtype=torch.float64)
    memory, in_use = one.slots.remember(slots[None]), torch.ones(1, 3, dtype=torch.bool)
    expected = transcription.block(x.numpy(), slots.numpy(), weights(one), 2, first)
    torch.testing.assert_close(one(x[None], memory, in_use, None).features[0], torch.from_numpy(expected))


def test_a_token_is_predicted_from_those_before_it_alone():
    torch.manual_seed(0)
    model, x = Transformer(CONFIG, 6).double(), torch.randn(1, 6, 8, dtype=torch.float64)
    memory, in_use = model.remember(torch.randn(1, 3, 6, dtype=torch.float64)), torch.ones(1, 3, dtype=torch.bool)
    plain = model(x, memory, in_use).features
    for changed in range(6):
        other = x.clone()
        other[:, changed, 0] += 1
        predicted = model(other, memory, in_use).features
        assert torch.equal(predicted[:, :changed], plain[:, :changed])
        assert (predicted[:, changed:] != plain[:, changed:]).any(-1).all()


def test_attention_to_slots_sums_to_one_and_leaves_out_unused_ones():
    torch.manual_seed(0)
    model, x, slots = Transformer(CONFIG, 6), torch.randn(2, 4, 8), torch.randn(2, 3, 6)
    in_use = torch.tensor([[True, True, False], [True, True, True]])
    predicted = model(x, model.remember(slots), in_use)
    torch.testing.assert_close(predicted.attention.sum(1), torch.ones(2, 4))
    assert (predicted.attention[0, 2] == 0).all()
    assert (predicted.attention[1] > 0).all()
    fewer = model(x[:1], model.remember(slots[:1, :2]), in_use[:1, :2])
    torch.testing.assert_close(predicted.features[:1], fewer.features)


def test_output_projections_begin_small_so_that_deep_ones_do_not_explode():
    """A gain of (3·blocks)^-1/2 on the last map of each of a block's three parts."""
    torch.manual_seed(0)
    wide = TokenDecoderConfig(vocabulary=7, dim=256, blocks=4)
    made = Block(wide, first=False)
    xavier = 1 / 256
    for weight in (made.tokens.out.weight, made.slots.out.weight):
        assert weight.var().item() == pytest.approx(xavier / 12, rel=0.05)
    assert made.outer.weight.var().item() == pytest.approx(2 / (5 * 256) / 12, rel=0.05)
    assert made.tokens.query.weight.var().item() == pytest.approx(xavier, rel=0.05)
