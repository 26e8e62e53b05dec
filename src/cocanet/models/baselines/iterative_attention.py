"""Slot Attention's iteration: slots compete for positions, then each takes up the mean of what it won."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor, nn

from cocanet.layers.linear import linear
from cocanet.models.baselines.slot_update import SlotUpdate


class Attended(NamedTuple):
    """Slots, and the softmax over slots that led to them."""

    slots: Float[Tensor, "b k d"]
    attention: Float[Tensor, "b k n"]


def mean_weights(attention: Float[Tensor, "b k n"]) -> Float[Tensor, "b k n"]:
    """Weights of a mean over positions; a slot that won nothing takes the mean of all."""
    attention = attention + 1e-8
    return attention / attention.sum(-1, keepdim=True)


def damped_weights(attention: Float[Tensor, "b k n"]) -> Float[Tensor, "b k n"]:
    """The same, but a slot that won less than a position or so takes up next to nothing (BO-QSA)."""
    return attention / (attention.sum(-1, keepdim=True) + 1)


class SlotIteration(nn.Module):
    """One round of attention and the slots' update, by turns with itself.

    Keys and values are linear in the inputs, so their maps go to the few slots instead of the many positions:
    q · (W_k x) = (W_kᵀ q) · x and Σ a (W_v x) = W_v (Σ a x). Neither is ever laid out.
    """

    def __init__(
        self,
        inputs: int,
        dim: int,
        update: SlotUpdate,
        weigh: Callable[[Tensor], Tensor],
        eps: float,
    ) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim, eps=eps)
        self.query = linear(dim, dim, bias=False)
        self.key = linear(inputs, dim, bias=False)
        self.value = linear(inputs, dim, bias=False)
        self.update = update
        self.weigh = weigh

    def forward(self, inputs: Float[Tensor, "b n c"], slots: Float[Tensor, "b k d"]) -> Attended:
        queries = self.query(self.norm(slots)) @ self.key.weight * slots.shape[-1] ** -0.5
        attention = (queries @ inputs.mT).softmax(1)
        updates = self.value(self.weigh(attention) @ inputs)
        return Attended(self.update(slots, updates), attention)
