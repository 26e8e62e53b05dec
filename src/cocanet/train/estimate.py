"""What a training step will cost, measured on a few of them."""

from __future__ import annotations

import resource
import sys
import time
from typing import NamedTuple

import torch

from cocanet.config import Preset
from cocanet.models.build import build
from cocanet.train.loss import Objective
from cocanet.train.optimiser import make_optimiser


class StepCost(NamedTuple):
    """Seconds of a step, and the memory that the process holds at its most."""

    seconds: float
    bytes: int


def estimate_step(preset: Preset, device: str = "cpu") -> StepCost:
    """Take steps on noise with a model that is thrown away; the mean over a run that begins with the encoder alone."""
    model = build(preset, seed=0).to(device)
    objective, optimiser = Objective(model, preset.train), make_optimiser(model, preset.train)
    images = torch.rand(preset.train.batch_size, 3, *preset.model.image_size, device=device)

    def fastest(done: float) -> float:
        """The cost of two steps, after a first one, at a share of the run."""
        seconds = []
        for _ in range(3):
            start = time.perf_counter()
            objective(images, done).backward()
            optimiser.step()
            optimiser.zero_grad()
            if device != "cpu":
                torch.cuda.synchronize()
            seconds.append(time.perf_counter() - start)
        return min(seconds[1:])

    alone = preset.train.encoder_first
    shares = ((0.0, alone), (1.0, 1 - alone))
    return StepCost(sum(share * fastest(done) for done, share in shares if share), _peak_memory(device))


def _peak_memory(device: str) -> int:
    if device != "cpu":
        return torch.cuda.max_memory_allocated()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
