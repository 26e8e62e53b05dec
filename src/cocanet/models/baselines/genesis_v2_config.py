"""GENESIS-v2 as numbers: frozen dataclasses, checked where they are built."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Kernel = Literal["gaussian", "laplacian", "epanechnikov"]

SMALLEST_SIDE = 16
"""The decoder enlarges by 16, the U-Net shrinks to 4×4."""
NORM_GROUPS = 8


@dataclass(frozen=True)
class GecoConfig:
    """How the KL divergence's weight β follows the reconstruction error."""

    goal: float = 0.5655
    """Error per pixel and colour to aim at, in nats; with a deviation of 0.7 it is a squared error of 0.0032."""
    step: float = 1e-5
    """Rate at which β moves, for 64×64 pixels; it is inverse to their number."""
    speed_up: float = 10.0
    """So much faster does β grow, once the goal is reached, than it shrinks."""
    momentum: float = 0.99
    """Of the error's moving average."""
    beta: float = 1.0
    """Where β begins."""
    beta_range: tuple[float, float] = (1e-10, 1e10)

    def __post_init__(self) -> None:
        _positive(goal=self.goal, step=self.step, speed_up=self.speed_up)
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum must be 0 or more and below 1; got {self.momentum}")
        low, high = self.beta_range
        if not 0 < low <= self.beta <= high:
            raise ValueError(f"beta must lie in its range of positive numbers; got {self.beta} and {low} to {high}")


@dataclass(frozen=True)
class GenesisV2Config:
    """GENESIS-v2 for square images of one size."""

    image_size: tuple[int, int]
    slots: int
    features: int = 64
    """Channels of a pixel's features, and numbers in a slot."""
    colours: int = 8
    """Channels of a pixel's colour in the embedding that the masks are grown in."""
    kernel: Kernel = "gaussian"
    """How likeness falls with the distance of two colours."""
    pixel_deviation: float = 0.7
    """Standard deviation of a pixel around the colour that a slot paints."""
    geco: GecoConfig = field(default_factory=GecoConfig)
    kind: Literal["genesis-v2"] = "genesis-v2"

    def __post_init__(self) -> None:
        height, width = self.image_size
        if height != width or height < SMALLEST_SIDE or height & (height - 1):
            raise ValueError(
                f"GENESIS-v2 takes square images whose side is a power of two from {SMALLEST_SIDE}; "
                f"got {height}×{width}"
            )
        if self.slots < 2:
            raise ValueError(f"slots must be at least 2; got {self.slots}")
        if not 0 < self.features <= 64 or self.features % NORM_GROUPS:
            raise ValueError(f"features must be a multiple of {NORM_GROUPS} up to 64; got {self.features}")
        if self.colours < 2:
            raise ValueError(f"colours must be at least 2, for row and column; got {self.colours}")
        _positive(pixel_deviation=self.pixel_deviation)


def _positive(**values: float) -> None:
    for name, value in values.items():
        if value <= 0:
            raise ValueError(f"{name} must be positive; got {value}")
