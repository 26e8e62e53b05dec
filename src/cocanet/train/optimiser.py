"""Adam and the learning rate's course."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from cocanet.config import TrainConfig
from cocanet.models.tokens import DiscreteAutoencoder

TOKENS = "tokens"
"""Marks the group of parameters that give a decoder its tokens."""


def learning_rate_factor(config: TrainConfig, step: int | float) -> float:
    """Share of the full learning rate at a step, counted from 0: linear warm-up times a decay.

    A run on a clock stands between steps: at the share of its steps that it has spent of its time. Where the encoder
    rests after it has learned alone, either part of the run has the whole course.
    """
    if config.encoder_rests:
        alone = round(config.encoder_first * config.steps)
        begun, length = (0, alone) if step < alone else (alone, config.steps - alone)
        return learning_rate_factor(replace(config.stretched(max(1, length)), encoder_rests=False), step - begun)
    warmup = min(1.0, (step + 1) / config.warmup_steps) if config.warmup_steps else 1.0
    if config.decay == "constant":
        return warmup
    if config.decay == "cosine":
        done = min(1.0, max(0, step - config.warmup_steps) / max(1, config.steps - config.warmup_steps))
        return warmup * 0.5 * (1 + math.cos(math.pi * done))
    return float(warmup * 0.5 ** (step / config.half_life))


def make_optimiser(model: nn.Module, config: TrainConfig) -> torch.optim.Adam:
    """Adam with the paper's weight decay; what gives a decoder its tokens may have a learning rate of its own."""
    groups: list[dict[str, Any]] = [{"params": list(model.parameters())}]
    if config.token_learning_rate is not None:
        tokens = [x for part in model.modules() if isinstance(part, DiscreteAutoencoder) for x in part.parameters()]
        if not tokens:
            raise ValueError("token_learning_rate is for a decoder by tokens; this model has none")
        known = {id(parameter) for parameter in tokens}
        others = [parameter for parameter in model.parameters() if id(parameter) not in known]
        groups = [{"params": others}, {"params": tokens, TOKENS: True}]
    return torch.optim.Adam(groups, lr=config.learning_rate, weight_decay=config.weight_decay, fused=True)


def set_learning_rate(optimiser: torch.optim.Optimizer, config: TrainConfig, step: int | float) -> float:
    """Set the learning rate of a step, and return it; tokens have no warm-up."""
    rate = config.learning_rate * learning_rate_factor(config, step)
    for group in optimiser.param_groups:
        group["lr"] = rate
        if group.get(TOKENS) and config.token_learning_rate is not None:
            at_once = replace(config, warmup_steps=0)
            group["lr"] = config.token_learning_rate * learning_rate_factor(at_once, step)
    return rate
