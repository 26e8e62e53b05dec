"""Optimisers and the learning-rate schedule of a stage."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from cocanet.config import Adam, Muon, Schedule, Stage
from cocanet.models.tokens import DiscreteAutoencoder

NO_WARMUP = "no_warmup"
"""Marks a group of parameters whose learning rate starts at its full value."""
SMALLEST_MATRIX = 16
"""Muon takes matrices of at least this many rows and columns; Adam takes the others."""
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
NEWTON_SCHULZ_STEPS = 5


def learning_rate_factor(schedule: Schedule, step: int | float, steps: int | float) -> float:
    """Share of the full learning rate at a step of a stage, counted from 0: linear warm-up times a decay.

    A run that is timed stands between steps, at the share of its steps that its time has spent.
    """
    warmup_steps = schedule.warmup * steps
    warmup = min(1.0, (step + 1) / warmup_steps) if warmup_steps else 1.0
    if schedule.decay == "constant":
        return warmup
    if schedule.decay == "cosine":
        done = min(1.0, max(0, step - warmup_steps) / max(1, steps - warmup_steps))
        return warmup * 0.5 * (1 + math.cos(math.pi * done))
    return float(warmup * 0.5 ** (step / max(1, schedule.half_life * steps)))


def set_learning_rate(
    optimiser: torch.optim.Optimizer, schedule: Schedule, step: int | float, steps: int | float
) -> float:
    """Set the learning rate of a step of a stage, and return that of the first group."""
    factor = learning_rate_factor(schedule, step, steps)
    at_once = learning_rate_factor(Schedule(0.0, schedule.decay, schedule.half_life), step, steps)
    for group in optimiser.param_groups:
        group["lr"] = group["full_lr"] * (at_once if group.get(NO_WARMUP) else factor)
    return float(optimiser.param_groups[0]["lr"])


def make_optimiser(model: nn.Module, stage: Stage) -> torch.optim.Adam:
    """The optimiser of the parameters that a stage trains."""
    config = stage.optimiser
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if isinstance(config, Muon):
        return MuonWithAdam(trained, config)
    return torch.optim.Adam(_adam_groups(model, trained, config), weight_decay=config.weight_decay, fused=True)


def freeze(model: nn.Module, trains: tuple[str, ...]) -> None:
    """Leave gradients to the named parts of a model only; to all of it if none is named."""
    check_parts(model, trains)
    model.requires_grad_(not trains)
    for name in trains:
        model.get_submodule(name).requires_grad_(True)


def check_parts(model: nn.Module, trains: tuple[str, ...]) -> None:
    """The model has the named parts."""
    parts = dict(model.named_children())
    for name in trains:
        if name not in parts:
            raise ValueError(f"a stage trains {name!r}, which this model does not have; it has {', '.join(parts)}")


def _adam_groups(model: nn.Module, trained: list[nn.Parameter], config: Adam) -> list[dict[str, Any]]:
    """One group, or two where a token decoder's autoencoder has a learning rate of its own."""
    if config.token_learning_rate is None:
        return [_group(trained, config.learning_rate)]
    tokens = [x for part in model.modules() if isinstance(part, DiscreteAutoencoder) for x in part.parameters()]
    if not tokens:
        raise ValueError("token_learning_rate needs a token decoder; this model has none")
    known = {id(parameter) for parameter in tokens}
    others = [parameter for parameter in trained if id(parameter) not in known]
    return [_group(others, config.learning_rate), _group(tokens, config.token_learning_rate) | {NO_WARMUP: True}]


def _group(parameters: list[nn.Parameter], rate: float) -> dict[str, Any]:
    return {"params": parameters, "lr": rate, "full_lr": rate}


class MuonWithAdam(torch.optim.Adam):
    """Muon for matrices and convolution kernels, Adam for the rest, in one optimiser with one state.

    Muon orthogonalises the momentum of each matrix by Newton–Schulz iterations; here for all matrices of one shape
    together, in float32.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], config: Muon) -> None:
        known = list(parameters)
        matrices = [p for p in known if p.ndim >= 2 and min(p.shape[0], p[0].numel()) >= SMALLEST_MATRIX]
        ids = {id(p) for p in matrices}
        others = [p for p in known if id(p) not in ids]
        groups = [
            _group(matrices, config.learning_rate) | {"muon": True, "momentum": config.momentum},
            _group(others, config.adam_learning_rate) | {"muon": False, "momentum": 0.0},
        ]
        super().__init__([group for group in groups if group["params"]], fused=True)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        for group in self.param_groups:
            if group["muon"]:
                self._step_matrices(group)
        return super().step(closure)

    def __setstate__(self, state: dict[str, Any]) -> None:
        torch.optim.Optimizer.__setstate__(self, state)  # Adam's own expects a step count of every parameter

    def _step_matrices(self, group: dict[str, Any]) -> None:
        by_shape: dict[tuple[int, int], list[nn.Parameter]] = {}
        for parameter in group["params"]:
            if parameter.grad is not None:
                shape = parameter.shape[0], parameter[0].numel()
                by_shape.setdefault(shape, []).append(parameter)
        for (rows, columns), parameters in by_shape.items():
            updates = orthogonalise(torch.stack([self._momentum(p, group["momentum"]) for p in parameters]))
            rate = group["lr"] * max(1.0, rows / columns) ** 0.5
            for parameter, update in zip(parameters, updates, strict=True):
                parameter.sub_(update.view_as(parameter), alpha=rate)
                parameter.grad = None  # Adam skips what has no gradient

    def _momentum(self, parameter: nn.Parameter, momentum: float) -> Tensor:
        """Nesterov momentum of a parameter, as a matrix."""
        state, gradient = self.state[parameter], parameter.grad
        assert gradient is not None
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(parameter)
        state["momentum"].mul_(momentum).add_(gradient)
        return gradient.add(state["momentum"], alpha=momentum).flatten(1)


def orthogonalise(matrices: Tensor) -> Tensor:
    """UVᵀ of each matrix UΣVᵀ, nearly: singular values end between about 0.7 and 1.2 (five Newton–Schulz steps)."""
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    a, b, c = NEWTON_SCHULZ
    for _ in range(NEWTON_SCHULZ_STEPS):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    out: Tensor = x.mT if tall else x
    return out
