"""The rivals' MLP."""

from __future__ import annotations

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from cocanet.layers.linear import linear


class ReluMLP(nn.Module):
    """Two linear maps with a ReLU between them."""

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.inner = linear(inputs, hidden)
        self.outer = linear(hidden, outputs)

    def forward(self, x: Float[Tensor, "*nodes inputs"]) -> Float[Tensor, "*nodes outputs"]:
        out: Tensor = self.outer(F.relu_(self.inner(x)))
        return out
