"""Linear maps and convolutions with the one initialisation of this model: Xavier-uniform weights, zero biases."""

from __future__ import annotations

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


def linear(inputs: int, outputs: int, bias: bool = True) -> nn.Linear:
    layer = nn.Linear(inputs, outputs, bias=bias)
    _initialise(layer)
    return layer


def conv(inputs: int, outputs: int, kernel: int, padding: int = 0, bias: bool = True, stride: int = 1) -> nn.Conv2d:
    layer = nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=padding, bias=bias)
    _initialise(layer)
    return layer


def transposed_conv(inputs: int, outputs: int, kernel: int, stride: int) -> nn.ConvTranspose2d:
    """Transposed convolution whose output is exactly `stride` times its input."""
    layer = nn.ConvTranspose2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, output_padding=stride - 1)
    _initialise(layer)
    return layer


def _initialise(layer: nn.Linear | nn.Conv2d | nn.ConvTranspose2d) -> None:
    nn.init.xavier_uniform_(layer.weight)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)


class MLP(nn.Module):
    """Two linear maps with a GELU between them."""

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.inner = linear(inputs, hidden)
        self.outer = linear(hidden, outputs)

    def forward(self, x: Float[Tensor, "*nodes inputs"]) -> Float[Tensor, "*nodes outputs"]:
        out: Tensor = self.outer(F.gelu(self.inner(x)))
        return out


class ReluMLP(MLP):
    """The same with a ReLU, as the baselines have it."""

    def forward(self, x: Float[Tensor, "*nodes inputs"]) -> Float[Tensor, "*nodes outputs"]:
        out: Tensor = self.outer(F.relu_(self.inner(x)))
        return out
