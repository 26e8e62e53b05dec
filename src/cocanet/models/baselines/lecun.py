"""Flax's initial values, which INV-SA was tuned with."""

from __future__ import annotations

import math

from torch import Tensor, nn

SHRINKAGE = 0.87962566103423978
"""Standard deviation of a standard normal cut off at ±2."""


def initialise(module: nn.Module) -> None:
    """Set a layer's weights by LeCun's rule, recurrent ones orthogonal gate by gate, and its biases to zero."""
    if isinstance(module, nn.Linear | nn.Conv2d):
        lecun_normal(module.weight, module.weight[0].numel())
    elif isinstance(module, nn.ConvTranspose2d):
        lecun_normal(module.weight, module.weight[:, 0].numel())
    elif isinstance(module, nn.GRUCell):
        lecun_normal(module.weight_ih, module.input_size)
        for gate in module.weight_hh.detach().chunk(3):
            nn.init.orthogonal_(gate)
        nn.init.zeros_(module.bias_ih)
        nn.init.zeros_(module.bias_hh)


def lecun_normal(weight: Tensor, inputs: int) -> None:
    """Fill with a normal of variance 1 / inputs that is cut off at two deviations."""
    deviation = 1 / (math.sqrt(inputs) * SHRINKAGE)
    nn.init.trunc_normal_(weight, std=deviation, a=-2 * deviation, b=2 * deviation)
