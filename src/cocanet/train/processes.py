"""Values that the processes of one run exchange; with one process nothing is sent."""

from __future__ import annotations

from typing import cast

import torch
from jaxtyping import Float, Shaped
from lightning_fabric import Fabric
from torch import Tensor


def largest(fabric: Fabric, value: int | float) -> float:
    """The largest value of all processes."""
    return float(gather(fabric, torch.tensor([value], dtype=torch.float64)).max())


def mean(fabric: Fabric, value: Float[Tensor, ""]) -> float:
    """The mean over all processes."""
    return float(gather(fabric, value[None]).mean())


def gather(fabric: Fabric, values: Shaped[Tensor, " n"]) -> Shaped[Tensor, " m"]:
    """The values of all processes in a row."""
    if fabric.world_size == 1:
        return values
    return cast(Tensor, fabric.all_gather(values)).flatten()
