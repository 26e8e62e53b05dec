"""Full precision within a network that runs in half precision."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from cocanet.functional.tracing import exporting


def full_precision(like: Tensor) -> AbstractContextManager[object]:
    """A context without autocast on that tensor's device: masks are products of many small numbers."""
    # An exported graph has one precision.
    return nullcontext() if exporting() else torch.autocast(like.device.type, enabled=False)


def at_least_float32(x: Tensor) -> Tensor:
    """The tensor in float32, or in float64 if it has that."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
