"""How many slots a model uses."""

from __future__ import annotations

from jaxtyping import Bool, Int, Int64
from torch import Tensor


def slots_with_pixels(
    table: Int[Tensor, "b segments slots"], in_use: Bool[Tensor, "b slots"] | None = None
) -> Int64[Tensor, " b"]:
    """Slots of each image that own at least one pixel, leaving out those that only pad it (`in_use` false)."""
    owning = table.sum(1) > 0
    return (owning if in_use is None else owning & in_use).sum(1)
