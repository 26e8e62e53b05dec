"""What a slot may be, given the slots before it: the autoregressive prior of GENESIS."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from cocanet.models.baselines.gaussian import Gaussian


class AutoregressivePrior(nn.Module):
    """A recurrent network reads the slots one by one and predicts the next; of the first it knows nothing."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.reader = nn.LSTM(dim, 4 * dim, batch_first=True)
        self.head = nn.Linear(4 * dim, 2 * dim)

    def forward(self, slots: Float[Tensor, "b k d"]) -> Gaussian:
        states, _ = self.reader(slots[:, :-1])
        mean, spread = self.head(states).chunk(2, -1)
        unknown = torch.zeros_like(slots[:, :1])
        return Gaussian(
            mean=torch.cat((unknown, mean.tanh()), 1),
            deviation=torch.cat((unknown + 1, (spread + 4).sigmoid() + 1e-4), 1),
        )
