"""How a model is trained: a run is a tuple of stages."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from cocanet.config.checks import not_negative, positive

Precision = Literal["32", "bf16"]
TOLERANCE = 1e-9
"""Rounding error of sums of shares."""


@dataclass(frozen=True)
class Adam:
    """Adam for all parameters, with the paper's numbers by default."""

    learning_rate: float = 3e-4
    weight_decay: float = 1e-5
    token_learning_rate: float | None = None
    """Learning rate of a token decoder's autoencoder, which has no warm-up; None for the rate of the rest."""
    kind: Literal["adam"] = "adam"

    def __post_init__(self) -> None:
        positive(learning_rate=self.learning_rate)
        not_negative(weight_decay=self.weight_decay)
        if self.token_learning_rate is not None:
            positive(token_learning_rate=self.token_learning_rate)


@dataclass(frozen=True)
class Muon:
    """Muon for weight matrices and convolution kernels, Adam for all other parameters."""

    learning_rate: float = 0.02
    adam_learning_rate: float = 1e-3
    momentum: float = 0.95
    kind: Literal["muon"] = "muon"

    def __post_init__(self) -> None:
        positive(learning_rate=self.learning_rate, adam_learning_rate=self.adam_learning_rate)
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum must be at least 0 and less than 1; got {self.momentum}")


OptimiserConfig = Adam | Muon


@dataclass(frozen=True)
class Schedule:
    """The learning rate over a stage: linear warm-up times a decay. Lengths are shares of the stage."""

    warmup: float = 0.02
    decay: Literal["exponential", "cosine", "constant"] = "exponential"
    half_life: float = 0.2
    """Share of the stage in which exponential decay halves the learning rate."""

    def __post_init__(self) -> None:
        positive(half_life=self.half_life)
        if not 0 <= self.warmup <= 1:
            raise ValueError(f"warmup is a share of the stage; expected 0 to 1, got {self.warmup}")


@dataclass(frozen=True)
class Reconstruction:
    """The model's own loss: the squared error of the reconstruction, or a token decoder's likelihood."""

    weight: float = 1.0
    pixels: float = 1.0
    """Share of the pixels, drawn anew for each step, that a pointwise decoder decodes in training."""
    kind: Literal["reconstruction"] = "reconstruction"

    def __post_init__(self) -> None:
        positive(weight=self.weight)
        if not 0 < self.pixels <= 1:
            raise ValueError(f"pixels is a share of the image; expected more than 0 and at most 1, got {self.pixels}")


LossConfig = Reconstruction


@dataclass(frozen=True)
class Stage:
    """A part of a run with its own image size, trained parameters, losses, optimiser and schedule."""

    share: float = 1.0
    """Share of the run; the shares of all stages sum to 1."""
    image_size: tuple[int, int] | None = None
    """Rows and columns of the images; None for the model's own. Windows shrink with the image."""
    trains: tuple[str, ...] = ()
    """Parts of the model that learn, such as `decoder`; all of them if empty. The others are frozen."""
    losses: tuple[LossConfig, ...] = (Reconstruction(),)
    optimiser: OptimiserConfig = field(default_factory=Adam)
    schedule: Schedule = field(default_factory=Schedule)

    def __post_init__(self) -> None:
        positive(share=self.share)
        if not self.losses:
            raise ValueError("a stage needs at least one loss; got none")


class StagePosition(NamedTuple):
    """Where a run stands: which stage, and the share of it that lies behind."""

    number: int
    done: float


@dataclass(frozen=True)
class TrainConfig:
    """Optimisation; the paper's by default."""

    steps: int = 500_000
    batch_size: int = 64
    stages: tuple[Stage, ...] = (Stage(),)
    clip_norm: float | None = None
    """Largest norm of the gradient; None for no clipping."""
    crop_padding: int = 3
    """Pixels of edge padding before the random crop; 0 for no crop."""

    def __post_init__(self) -> None:
        positive(steps=self.steps, batch_size=self.batch_size)
        not_negative(crop_padding=self.crop_padding)
        if self.clip_norm is not None:
            positive(clip_norm=self.clip_norm)
        total = sum(stage.share for stage in self.stages)
        if abs(total - 1) > 1e-6:
            raise ValueError(f"the shares of a run's stages must sum to 1; got {total:g}")

    def position(self, done: float) -> StagePosition:
        """The stage that a run is in when the share `done` of it lies behind."""
        begun = 0.0
        for index, stage in enumerate(self.stages):
            if done < begun + stage.share - TOLERANCE or index == len(self.stages) - 1:
                return StagePosition(index, min(1.0, max(0.0, (done - begun) / stage.share)))
            begun += stage.share
        raise AssertionError("a run has at least one stage")

    def first_step(self, stage: int) -> int:
        """The step, counted from 0, that a stage begins with."""
        return math.ceil(self.steps * (sum(before.share for before in self.stages[:stage]) - TOLERANCE))


@dataclass(frozen=True)
class RunConfig:
    """How a run is carried out, whatever it trains."""

    seed: int = 0
    """Seed of the weights, the order of the images and their crops."""
    minutes: float | None = None
    """Stop after this time instead of after a number of steps; warm-up and decay are fitted to it."""
    checkpoint_every: int = 500
    """Steps between checkpoints; a killed run loses no more."""
    validate_every: int | None = None
    """Steps between validations; a twentieth of the run if left out."""
    log_every: int = 10
    """Steps between lines of metrics.jsonl."""
    precision: Precision = "32"
    """32-bit, or bfloat16 where it is safe."""
    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """What to train on; the fastest there is if left out."""
    devices: int = 1
    """Processes or GPUs on this machine; the batch is divided among all of them."""
    nodes: int = 1
    """Machines, started with torchrun."""
    compile: bool = False
    """Compile the model first, which takes a minute or two and a C++ compiler: docs/train.md has where it pays."""
    tensorboard: bool = False
    """Write TensorBoard event files too."""

    def __post_init__(self) -> None:
        not_negative(seed=self.seed)
        positive(
            checkpoint_every=self.checkpoint_every, log_every=self.log_every, devices=self.devices, nodes=self.nodes
        )
        if self.minutes is not None:
            positive(minutes=self.minutes)
        if self.validate_every is not None:
            positive(validate_every=self.validate_every)
