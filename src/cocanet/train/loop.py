"""The training loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
from jaxtyping import Float
from torch import Tensor

from cocanet.config import TrainConfig
from cocanet.models.coca_net import CocaNet
from cocanet.train.loss import reconstruction_loss
from cocanet.train.optimiser import learning_rate_factor, make_optimiser


def fit(
    model: CocaNet,
    batches: Iterable[Float[Tensor, "b 3 h w"]],
    config: TrainConfig,
    on_step: Callable[[int, float], None] = lambda step, loss: None,
) -> None:
    """Train for `config.steps` on images in [0, 1]; `on_step` is told each step's number and loss."""
    optimiser = make_optimiser(model, config)
    model.train()
    for step, images in zip(range(config.steps), batches, strict=False):
        for group in optimiser.param_groups:
            group["lr"] = config.learning_rate * learning_rate_factor(config, step)
        loss = reconstruction_loss(model(images), images)
        if not math.isfinite(loss.item()):
            raise ValueError(f"the loss is {loss.item()} at step {step}; try a lower learning rate")
        optimiser.zero_grad()
        loss.backward()
        if config.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm)
        optimiser.step()
        on_step(step, loss.item())
