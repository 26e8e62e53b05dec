"""The cost of a training run, measured on a few steps."""

from __future__ import annotations

import resource
import sys
import time
from dataclasses import dataclass

import torch
from rich.filesize import decimal

from cocanet.config import Preset, Stage, TrainConfig
from cocanet.models.build import build
from cocanet.train.loop import VALIDATION_SHARE, VALIDATIONS
from cocanet.train.losses import Objective
from cocanet.train.optimiser import freeze, make_optimiser
from cocanet.words import about, plural

SHORT = 100
"""Runs of fewer steps are over before their time is measured."""
LONG = 5.0
"""Seconds of a step after which no second one is timed."""
PICTURE_SECONDS = 1.0
"""Time of the picture of a validation."""
TRUST = 0.02
"""Share of a run in which its own pace replaces the estimate."""


@dataclass(frozen=True)
class RunCost:
    """The cost of a run: seconds of a step in each stage, of a validation, and the peak memory of the process."""

    train: TrainConfig
    step_seconds: tuple[float, ...]
    validation_seconds: float
    bytes: int

    @property
    def seconds(self) -> float:
        """Seconds of the whole run, if it has a number of steps."""
        return self._until(1.0)

    def seconds_left(self, done: float, seconds: float) -> float:
        """Seconds until the end, when the share `done` of the steps took `seconds`.

        It begins as the estimate, and follows the run's own pace from then on.
        """
        expected, trust = self._until(done), TRUST * self.seconds
        pace = (seconds + trust) / (expected + trust)
        return pace * (self.seconds - expected)

    def steps_in(self, minutes: float) -> int:
        """Steps of a run that is limited by time; each stage has its share of the minutes."""
        each = zip(self.train.stages, self.step_seconds, strict=True)
        return round(60 * minutes * (1 - VALIDATION_SHARE) * sum(stage.share / seconds for stage, seconds in each))

    def text(self, minutes: float | None) -> str:
        steps, memory = plural(self.train.steps, "step"), decimal(self.bytes)
        if minutes is None:
            verb = "takes" if self.train.steps == 1 else "take"
            time = f"{steps} {verb} {about(self.seconds)}: --minutes sets a limit, Ctrl-C stops and saves"
        else:
            verb = "is" if minutes == 1 else "are"
            time = f"{plural(minutes, 'minute')} {verb} enough for about {plural(self.steps_in(minutes), 'step')}"
        return f"{time}; about {memory} of memory"

    def _until(self, done: float) -> float:
        """Expected seconds of the first share `done` of the steps, with their validations."""
        spent, begun = VALIDATIONS * done * self.validation_seconds, 0.0
        for stage, seconds in zip(self.train.stages, self.step_seconds, strict=True):
            spent += self.train.steps * seconds * min(stage.share, max(0.0, done - begun))
            begun += stage.share
        return spent


def estimate_run(preset: Preset, validated: int = 0, device: str = "cpu") -> RunCost:
    """Time a few steps of each stage on noise with throw-away models, and a validation of `validated` images."""
    steps = tuple(_step_seconds(preset, stage, device) for stage in preset.train.stages)
    return RunCost(preset.train, steps, _validation_seconds(preset, validated, device), _peak_memory(device))


def _validation_seconds(preset: Preset, validated: int, device: str) -> float:
    if not validated:
        return PICTURE_SECONDS
    count = min(validated, preset.train.batch_size)
    model = build(preset, seed=0).to(device).eval()
    images = torch.rand(count, 3, *preset.model.image_size, device=device)
    start = time.perf_counter()
    with torch.inference_mode():
        model(images)
    return PICTURE_SECONDS + (time.perf_counter() - start) * validated / count


def _step_seconds(preset: Preset, stage: Stage, device: str) -> float:
    """The faster of two steps, after a first one; the first one if it takes long."""
    config = preset.model_at(stage)
    model = build(config, seed=0).to(device)
    freeze(model, stage.trains)
    objective, optimiser = Objective(model, stage), make_optimiser(model, stage)
    images = torch.rand(preset.train.batch_size, 3, *config.image_size, device=device)
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        objective(images).backward()
        optimiser.step()
        optimiser.zero_grad()
        if device != "cpu":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
        if seconds[0] > LONG:
            break
    return min(seconds[1:] or seconds)


def _peak_memory(device: str) -> int:
    if device != "cpu":
        return torch.cuda.max_memory_allocated()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
