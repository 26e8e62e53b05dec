"""Where mixed precision ends."""

from __future__ import annotations

import torch
from torch import Tensor


def full_precision(like: Tensor) -> torch.autocast:
    """A context without autocast on that tensor's device: masks are products of many small numbers."""
    return torch.autocast(like.device.type, enabled=False)
