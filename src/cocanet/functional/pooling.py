"""Features of clusters as means over their nodes (aggregation and skip equations of the supplement)."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from cocanet.functional.geometry import EMPTY


class Pooled(NamedTuple):
    """A sum under masks and the masks' own sum: means that can still be pooled further."""

    total: Float[Tensor, "*batch k d"]
    weight: Float[Tensor, "*batch k"]

    def mean(self) -> Float[Tensor, "*batch k d"]:
        return self.total / self.weight.clamp(min=EMPTY).unsqueeze(-1)


def pool(masks: Float[Tensor, "*batch k n"], features: Float[Tensor, "*batch n d"]) -> Pooled:
    """ΣΠX and ΣΠ."""
    return Pooled(masks @ features, masks.sum(-1))


def pool_again(masks: Float[Tensor, "*batch k n"], nodes: Pooled) -> Pooled:
    """ΣΠ^lΠ^(l−1)X and ΣΠ^lΠ^(l−1): pooling under the merged masks of two levels, without merging them."""
    return Pooled(masks @ nodes.total, (masks @ nodes.weight.unsqueeze(-1)).squeeze(-1))
