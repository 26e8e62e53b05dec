"""Error of reconstructions."""

from __future__ import annotations

from jaxtyping import Float, Float64
from torch import Tensor


def reconstruction_error(
    reconstruction: Float[Tensor, "b c h w"], images: Float[Tensor, "b c h w"]
) -> Float64[Tensor, " b"]:
    """Mean squared error of each image; the reconstruction is clamped to [0, 1]."""
    return (reconstruction.clamp(0, 1) - images).double().square().mean((1, 2, 3))
