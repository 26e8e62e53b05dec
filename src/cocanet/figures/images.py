"""Images that a figure shows."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor


class Pictured(NamedTuple):
    """Images to draw, with their true segments if those are known."""

    images: Float[Tensor, "b 3 h w"]
    truth: Int[Tensor, "b h w"] | None = None
    background_labels: int = 1
