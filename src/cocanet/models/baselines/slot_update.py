"""How a slot takes up what it attended to: a GRU whose hidden state is the slot, then a residual MLP."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from cocanet.models.baselines.mlp import ReluMLP


class SlotUpdate(nn.Module):
    """GRU and MLP; with `drop_path` training skips an image's MLP by that chance."""

    def __init__(self, dim: int, hidden: int, eps: float, drop_path: float = 0.0) -> None:
        super().__init__()
        self.gru = nn.GRUCell(dim, dim)
        self.norm = nn.LayerNorm(dim, eps=eps)
        self.mlp = ReluMLP(dim, hidden, dim)
        self.drop_path = drop_path
        nn.init.xavier_uniform_(self.gru.weight_ih)
        nn.init.orthogonal_(self.gru.weight_hh)
        nn.init.zeros_(self.gru.bias_ih)
        nn.init.zeros_(self.gru.bias_hh)

    def forward(self, slots: Float[Tensor, "b k d"], updates: Float[Tensor, "b k d"]) -> Float[Tensor, "b k d"]:
        carried = self.gru(updates.flatten(0, 1), slots.flatten(0, 1)).unflatten(0, slots.shape[:2])
        step = self.mlp(self.norm(carried))
        if self.training and self.drop_path:
            step = drop_path(step, self.drop_path)
        out: Tensor = carried + step
        return out


def drop_path(x: Float[Tensor, "b k d"], chance: float) -> Float[Tensor, "b k d"]:
    """Zero whole images by chance, and enlarge the others so that the mean stays (stochastic depth)."""
    kept = torch.empty(len(x), 1, 1, dtype=x.dtype, device=x.device).bernoulli_(1 - chance)
    return x * (kept / (1 - chance))
