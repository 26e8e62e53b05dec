"""`python -m benchmarks`: step time and memory of the presets, against a direct transcription and the arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import tyro
from rich.console import Console
from rich.table import Table

from benchmarks.encoders import SUBJECTS as ENCODERS
from benchmarks.encoders import images_per_second
from benchmarks.measure import measure_apart
from benchmarks.scaling import config_for, encoder_seconds_per_pixel
from benchmarks.stages import stage_rates
from cocanet.presets.baselines import MODELS

SPEED = (
    ("tetrominoes", 16),
    ("multi-dsprites", 8),
    ("objects-room", 8),
    ("shapestacks", 8),
    ("clevr6", 2),
    ("clevrtex", 2),
)
MEMORY = (
    ("tetrominoes", 64),
    ("multi-dsprites", 64),
    ("objects-room", 64),
    ("shapestacks", 64),
    ("clevr6", 32),
    ("clevrtex", 16),
)
BASELINES = (("tetrominoes", 16), ("multi-dsprites", 8))
COMPILED = (("tetrominoes-fast", 8), ("multi-dsprites-fast", 8), ("clevr6-fast", 4))
STAGED = "clevr6-fast"
SIDES = (32, 64, 128, 256)


@dataclass(frozen=True)
class Benchmarks:
    """Measure a training step of each preset on this machine's CPU."""

    part: Literal["speed", "baselines", "compile", "encoders", "memory", "scaling", "stages", "all"] = "all"
    threads: int = 2
    repeats: int = 10


def main() -> None:
    chosen = tyro.cli(Benchmarks, prog="python -m benchmarks")
    console = Console(width=110)
    parts = {
        "speed": speed,
        "baselines": baselines,
        "compile": compiled,
        "encoders": encoders,
        "memory": memory,
        "scaling": scaling,
        "stages": stages,
    }
    for name, part in parts.items():
        if chosen.part in (name, "all"):
            console.print(part(chosen))


def speed(chosen: Benchmarks) -> Table:
    """Step time of ours, of the direct transcription, and of the bare arithmetic."""
    table = Table(title=f"Training step on a CPU, {chosen.threads} threads, medians of {chosen.repeats}")
    for column in (
        "preset",
        "batch",
        "ours, s",
        "direct, s",
        "direct/ours",
        "limit, s",
        "ours/limit",
        "GFLOP",
        "GFLOP/s of a GEMM",
    ):
        table.add_column(column, justify="left" if column == "preset" else "right")
    for preset, batch in SPEED:
        ours = measure_apart(preset, batch, "ours", chosen.repeats, chosen.threads)
        direct = measure_apart(preset, batch, "direct", max(1, chosen.repeats // 3), chosen.threads)
        ratio = f"{direct.seconds / ours.seconds:.1f}×"
        table.add_row(
            preset, str(batch), f"{ours.seconds:.3f}", f"{direct.seconds:.2f}", ratio, f"{ours.limit:.3f}",
            f"{ours.seconds / ours.limit:.2f}×", f"{ours.gigaflop:.1f}", f"{ours.gemm_gigaflop_per_second:.0f}",
        )  # fmt: skip
    return table


def baselines(chosen: Benchmarks) -> Table:
    """Step time of every model on two data sets, against its own arithmetic."""
    table = Table(title=f"Training step of every model, {chosen.threads} threads, medians of {chosen.repeats}")
    for column in ("preset", "batch", "step, s", "limit, s", "step/limit", "GFLOP"):
        table.add_column(column, justify="left" if column == "preset" else "right")
    for data_set, batch in BASELINES:
        for preset in (data_set, *(f"{model}-{data_set}" for model in MODELS)):
            step = measure_apart(preset, batch, "ours", chosen.repeats, chosen.threads)
            ratio = f"{step.seconds / step.limit:.2f}×"
            table.add_row(preset, str(batch), f"{step.seconds:.3f}", f"{step.limit:.3f}", ratio, f"{step.gigaflop:.1f}")
    return table


def compiled(chosen: Benchmarks) -> Table:
    """Step time of the fast recipe as `coca train --compile` has it, and without."""
    table = Table(title=f"Training step, plain and compiled, {chosen.threads} threads, medians of {chosen.repeats}")
    for column in ("preset", "batch", "plain, s", "compiled, s", "plain/compiled"):
        table.add_column(column, justify="left" if column == "preset" else "right")
    for preset, batch in COMPILED:
        plain = measure_apart(preset, batch, "ours", chosen.repeats, chosen.threads)
        after = measure_apart(preset, batch, "compiled", chosen.repeats, chosen.threads)
        ratio = f"{plain.seconds / after.seconds:.2f}×"
        table.add_row(preset, str(batch), f"{plain.seconds:.3f}", f"{after.seconds:.3f}", ratio)
    return table


def encoders(chosen: Benchmarks) -> Table:
    """Images a second from images to slots and masks, without decoders."""
    torch.set_num_threads(chosen.threads)
    table = Table(title=f"Encoders alone, {chosen.threads} threads, images/s, medians of {chosen.repeats}")
    for column in ("images", "batch", "coca-net", "coca-net -fast", *MODELS):
        table.add_column(column, justify="left" if column == "images" else "right")
    for data_set, batch in ENCODERS:
        rates = images_per_second(data_set, batch, chosen.repeats)
        table.add_row(data_set, str(batch), *(f"{rate:.1f}" for rate in rates.values()))
    return table


def memory(chosen: Benchmarks) -> Table:
    """Peak memory of a whole process that takes training steps at a large batch."""
    table = Table(title="Peak memory of a training process")
    for column in ("preset", "batch", "peak, GB", "step, s"):
        table.add_column(column, justify="left" if column == "preset" else "right")
    for preset, batch in MEMORY:
        step = measure_apart(preset, batch, "ours", 1, chosen.threads)
        table.add_row(preset, str(batch), f"{step.peak_gigabytes:.1f}", f"{step.seconds:.1f}")
    return table


def stages(chosen: Benchmarks) -> Table:
    """Images per second in training by the fast recipe, with a loss on all pixels and on a sample."""
    torch.set_num_threads(chosen.threads)
    table = Table(title=f"Fast recipe, {STAGED}, batch 8, {chosen.threads} threads, images/s")
    for column in ("side, px", "all pixels", "sampled", "sampled/all"):
        table.add_column(column, justify="right")
    for side, whole, sampled in stage_rates(STAGED, 8, chosen.repeats):
        table.add_row(str(side), f"{whole:.1f}", f"{sampled:.1f}", f"{sampled / whole:.2f}×")
    return table


def scaling(chosen: Benchmarks) -> Table:
    """Encoder time per pixel against the image's side."""
    torch.set_num_threads(chosen.threads)
    table = Table(title="Encoder, 4×4 windows, the same number of pixels at every side")
    for column in ("side, px", "levels", "µs per pixel", "relative"):
        table.add_column(column, justify="right")
    times = {side: encoder_seconds_per_pixel(side, chosen.repeats) for side in SIDES}
    for side, seconds in times.items():
        levels = len(config_for(side).levels)
        table.add_row(str(side), str(levels), f"{seconds * 1e6:.2f}", f"{seconds / times[SIDES[0]]:.2f}×")
    return table


if __name__ == "__main__":
    main()
