"""Where mixed precision ends."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from cocanet.functional.tracing import exporting


def full_precision(like: Tensor) -> AbstractContextManager[object]:
    """A context without autocast on that tensor's device: masks are products of many small numbers."""
    # A graph has one precision, and no word for this.
    return nullcontext() if exporting() else torch.autocast(like.device.type, enabled=False)
