"""Adam and the learning rate's course."""

from __future__ import annotations

import math

import torch
from torch import nn

from cocanet.config import TrainConfig


def learning_rate_factor(config: TrainConfig, step: int | float) -> float:
    """Share of the full learning rate at a step, counted from 0: linear warm-up times a decay.

    A run on a clock stands between steps: at the share of its steps that it has spent of its time.
    """
    warmup = min(1.0, (step + 1) / config.warmup_steps) if config.warmup_steps else 1.0
    if config.decay == "constant":
        return warmup
    if config.decay == "cosine":
        done = min(1.0, max(0, step - config.warmup_steps) / max(1, config.steps - config.warmup_steps))
        return warmup * 0.5 * (1 + math.cos(math.pi * done))
    return float(warmup * 0.5 ** (step / config.half_life))


def make_optimiser(model: nn.Module, config: TrainConfig) -> torch.optim.Adam:
    """Adam with the paper's weight decay."""
    return torch.optim.Adam(model.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay, fused=True)


def set_learning_rate(optimiser: torch.optim.Optimizer, config: TrainConfig, step: int | float) -> float:
    """Set the learning rate of a step, and return it."""
    rate = config.learning_rate * learning_rate_factor(config, step)
    for group in optimiser.param_groups:
        group["lr"] = rate
    return rate
