"""The discrete variational autoencoder: squares of 4×4 pixels to logits over a vocabulary, and tokens to pixels."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from cocanet.config.tokens import TOKEN_SIDE, TokenDecoderConfig
from cocanet.layers.linear import conv

HIDDEN_LAYERS = 6


class ConvBlock(nn.Sequential):
    """Convolution, normalisation over channels and positions together, ReLU."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 1, stride: int = 1) -> None:
        padding = kernel // 2 if stride == 1 else 0
        layer = nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=padding, bias=False)
        nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu")
        super().__init__(layer, nn.GroupNorm(1, outputs), nn.ReLU(inplace=True))


class DiscreteAutoencoder(nn.Module):
    """Images in [0, 1] to a grid of logits, and a grid of tokens, soft or hard, to images; there is no KL term."""

    def __init__(self, config: TokenDecoderConfig) -> None:
        super().__init__()
        vocabulary, width, kernel = config.vocabulary, config.channels, config.kernel
        self.encoder = nn.Sequential(
            ConvBlock(3, width, TOKEN_SIDE, stride=TOKEN_SIDE),
            *(ConvBlock(width, width, kernel) for _ in range(HIDDEN_LAYERS)),
            conv(width, vocabulary, 1),
        )
        self.decoder = nn.Sequential(
            ConvBlock(vocabulary, width),
            *_enlarging(width, (3, kernel, 1)),
            *_enlarging(width, (3, 1, 1)),
            conv(width, 3, 1),
        )

    def logits(self, images: Float[Tensor, "b 3 height width"]) -> Float[Tensor, "b v h w"]:
        out: Tensor = self.encoder(images)
        return out.log_softmax(1)

    def decode(self, tokens: Float[Tensor, "b v h w"]) -> Float[Tensor, "b 3 height width"]:
        """Images of tokens, each a distribution over the vocabulary."""
        out: Tensor = self.decoder(tokens)
        return out

    def decode_tokens(self, tokens: Int[Tensor, "b h w"]) -> Float[Tensor, "b 3 height width"]:
        """Images of tokens, one per cell."""
        first: nn.Conv2d = self.decoder[0][0]  # type: ignore[index, assignment]
        one_hot = nn.functional.one_hot(tokens, first.in_channels)
        return self.decode(one_hot.permute(0, 3, 1, 2).to(first.weight.dtype))


def _enlarging(width: int, kernels: tuple[int, ...]) -> list[nn.Module]:
    """Twice as many rows and columns, after convolutions of these kernels."""
    blocks = [ConvBlock(width, width, kernel) for kernel in kernels]
    return [*blocks, ConvBlock(width, 4 * width), nn.PixelShuffle(2)]


def soft_choice(
    logits: Float[Tensor, "b v h w"], noise: Float[Tensor, "b v h w"], temperature: Tensor | float
) -> Float[Tensor, "b v h w"]:
    """A Gumbel-softmax sample of a token for every cell: softmax((logits + noise) / temperature)."""
    return ((logits + noise) / temperature).softmax(1)


def gumbel_noise(like: Tensor) -> Tensor:
    """Draws −log(−log u); with them added, the largest logit is a sample of its softmax."""
    return -torch.empty_like(like).exponential_().log()
