"""Time, memory and arithmetic of one training step, each in a fresh process."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, get_args

import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import direct
from cocanet import presets
from cocanet.config import Stage
from cocanet.models.build import build
from cocanet.models.coca_net import as_coca_net
from cocanet.train.optimiser import make_optimiser
from cocanet.train.stages import compile_parts

Subject = Literal["ours", "compiled", "direct"]
SUBJECTS: tuple[Subject, ...] = get_args(Subject)


@dataclass(frozen=True)
class Step:
    """What one training step took."""

    seconds: float
    peak_gigabytes: float
    gigaflop: float
    gemm_gigaflop_per_second: float
    """Of a large matrix product, measured between the steps."""

    @property
    def limit(self) -> float:
        """Seconds that the step's convolutions and matrix products would take at that rate."""
        return self.gigaflop / self.gemm_gigaflop_per_second


def measure_apart(preset: str, batch: int, subject: Subject, repeats: int, threads: int) -> Step:
    """Measure in a process of its own, so that peak memory is that of this step alone.

    The transcription runs as a plain script would: without our allocator settings too.
    """
    arguments = [preset, str(batch), subject, str(repeats), str(threads)]
    settings = {"COCANET_KEEP_MEMORY": "0"} if subject == "direct" else {}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.measure", *arguments],
        env=os.environ | settings,
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[1],
    )
    if done.returncode:
        raise RuntimeError(f"measuring {' '.join(arguments)} failed: {done.stderr.strip().splitlines()[-1]}")
    return Step(**json.loads(done.stdout))


def measure(preset: str, batch: int, subject: Subject, repeats: int, threads: int) -> Step:
    """Medians of steps and matrix products taken in turn, so that a slow moment of the machine slows both."""
    torch.set_num_threads(threads)
    step = training_step(preset, batch, subject)
    step()
    seconds, rates = [], [gemm_rate()]
    for _ in range(repeats):
        seconds.append(duration(step))
        rates.append(gemm_rate())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    with FlopCounterMode(display=False) as counter:
        training_step(preset, batch, "ours")()
    return Step(statistics.median(seconds), peak, counter.get_total_flops() / 1e9, statistics.median(rates))


def training_step(preset: str, batch: int, subject: Subject) -> Callable[[], None]:
    """Forward, loss, backward and Adam on random images."""
    chosen = presets.find(preset)
    model = build(chosen, seed=0)
    if subject == "compiled":
        compile_parts(model)
    images = torch.rand(batch, 3, *chosen.model.image_size, generator=torch.Generator().manual_seed(0))
    optimiser = make_optimiser(model, Stage())

    def step() -> None:
        if subject != "direct":
            loss = model.loss(model(images), images)
        else:
            output = direct.forward(as_coca_net(model, "the direct transcription"), images)
            loss = 4 * (output.reconstruction - images).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return step


def duration(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def gemm_rate(side: int = 1536, repeats: int = 5) -> float:
    """Billions of floating-point operations a second in a matrix product, the best of a few."""
    a = torch.rand(side, side)
    return 2 * side**3 / min(duration(lambda: a @ a) for _ in range(repeats)) / 1e9


if __name__ == "__main__":
    name, batch, subject, repeats, threads = sys.argv[1:]
    result = measure(name, int(batch), SUBJECTS[SUBJECTS.index(subject)], int(repeats), int(threads))
    print(json.dumps(asdict(result)))
