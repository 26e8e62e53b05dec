"""A small GENESIS-v2 for 16×16 pixels, and images for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from cocanet.config.rivals import GenesisV2Config
from cocanet.models.baselines.genesis_v2 import GenesisV2


def tiny_config(**changes: Any) -> GenesisV2Config:
    return GenesisV2Config(**({"image_size": (16, 16), "slots": 4, "features": 8} | changes))


def tiny_model(seed: int = 0, gate: float | None = None, **changes: Any) -> GenesisV2:
    """With the gate as it begins, unless told otherwise."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = GenesisV2(tiny_config(**changes))
    if gate is not None:
        model.colouring.gate.data.fill_(gate)
    return model


def noise_images(batch: int = 3, side: int = 16, seed: int = 0) -> torch.Tensor:
    return torch.rand(batch, 3, side, side, generator=torch.Generator().manual_seed(seed))


def arrays(module: torch.nn.Module) -> dict[str, np.ndarray]:
    """A module's weights in float64."""
    return {name: value.double().numpy() for name, value in module.state_dict().items()}


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    """Standard normal numbers in float64."""
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
