import math

import numpy as np
import pytest
import torch

from cocanet.config import TokenDecoderConfig
from cocanet.models.tokens.autoencoder import ConvBlock, DiscreteAutoencoder, gumbel_noise, soft_choice


def test_a_token_stands_for_four_by_four_pixels():
    torch.manual_seed(0)
    coder = DiscreteAutoencoder(TokenDecoderConfig(vocabulary=5, dim=8, channels=4))
    logits = coder.logits(torch.rand(2, 3, 8, 12))
    assert logits.shape == (2, 5, 2, 3)
    torch.testing.assert_close(logits.exp().sum(1), torch.ones(2, 2, 3))
    tokens = logits.argmax(1)
    one_hot = torch.nn.functional.one_hot(tokens, 5).permute(0, 3, 1, 2).float()
    assert coder.decode_tokens(tokens).shape == (2, 3, 8, 12)
    assert torch.equal(coder.decode_tokens(tokens), coder.decode(one_hot))


def test_a_block_normalises_channels_and_positions_together():
    torch.manual_seed(0)
    block, x = ConvBlock(2, 4, 3).double(), torch.randn(1, 2, 5, 6, dtype=torch.float64)
    seen = np.zeros((4, 5, 6))
    kernel, padded = block[0].weight.detach().numpy(), np.pad(x[0].numpy(), ((0, 0), (1, 1), (1, 1)))
    for channel in range(4):
        for row in range(5):
            for column in range(6):
                seen[channel, row, column] = (kernel[channel] * padded[:, row : row + 3, column : column + 3]).sum()
    expected = np.maximum((seen - seen.mean()) / math.sqrt(seen.var() + 1e-5), 0)
    torch.testing.assert_close(block(x)[0], torch.from_numpy(expected))


@pytest.mark.parametrize("temperature", [1.0, 0.1])
def test_a_soft_choice_is_the_softmax_of_noisy_logits(temperature):
    torch.manual_seed(0)
    logits = torch.randn(1, 4, 2, 3, dtype=torch.float64)
    noise = gumbel_noise(logits)
    found = soft_choice(logits, noise, temperature)
    for row in range(2):
        for column in range(3):
            each = [math.exp((logits[0, v, row, column] + noise[0, v, row, column]) / temperature) for v in range(4)]
            expected = torch.tensor([part / sum(each) for part in each], dtype=torch.float64)
            torch.testing.assert_close(found[0, :, row, column], expected)


def test_the_largest_noisy_logit_is_a_sample_of_the_softmax():
    torch.manual_seed(0)
    chances = torch.tensor([0.5, 0.3, 0.15, 0.05])
    logits = chances.log().expand(100_000, 4)
    drawn = (logits + gumbel_noise(logits)).argmax(1).bincount(minlength=4) / 100_000
    torch.testing.assert_close(drawn, chances, atol=0.006, rtol=0)


def test_slate_and_bo_qsa_differ_in_seven_kernels():
    def kernels(side: int) -> list[int]:
        coder = DiscreteAutoencoder(TokenDecoderConfig(vocabulary=5, dim=8, kernel=side))
        return [layer.kernel_size[0] for layer in coder.modules() if isinstance(layer, torch.nn.Conv2d)]

    assert kernels(1) == [4, *[1] * 6, 1, 1, 3, 1, 1, 1, 3, 1, 1, 1, 1]
    assert kernels(3) == [4, *[3] * 6, 1, 1, 3, 3, 1, 1, 3, 1, 1, 1, 1]
