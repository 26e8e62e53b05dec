"""Batches for training: shuffled, seeded, resumable at any sample, and ready before they are needed.

A run is one endless row of samples, epoch after epoch, each a fresh permutation made from (seed, epoch). A
batch is the next stretch of it; ranks take every `world_size`-th sample of a stretch. So where a run stands
is two numbers, and what comes next depends only on them and the seed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int, Int64, UInt8
from torch import Tensor

from cocanet.data.augment import crop_offsets, pad_and_crop
from cocanet.words import plural


class Batch(NamedTuple):
    """Images in [0, 1], their labels, and which samples of the data set they are."""

    images: Float[Tensor, "b 3 h w"]
    labels: Int64[Tensor, "b h w"]
    indices: Int64[Tensor, " b"]


@runtime_checkable
class GatherSource(Protocol):
    """What the loader reads from: a store, or a 2-D scene generator."""

    def __len__(self) -> int: ...

    def gather(
        self, indices: Int[np.ndarray, " b"]
    ) -> tuple[UInt8[np.ndarray, "b h w 3"], UInt8[np.ndarray, "b h w"]]: ...


@dataclass(frozen=True)
class LoaderConfig:
    """`batch_size` counts all ranks together.

    With `drop_last` an epoch ends where it no longer fills a batch, and every rank sees the same number of
    equal batches. Without it the last batch is short: every sample is seen once, but a rank may get fewer, or
    none.
    """

    batch_size: int
    seed: int = 0
    shuffle: bool = True
    drop_last: bool = True
    pad: int = 0
    """Pixels of pad-and-random-crop; 3 for training, 0 for none."""
    rank: int = 0
    world_size: int = 1
    prefetch: int = 2

    def __post_init__(self) -> None:
        for name, least in (("batch_size", 1), ("pad", 0), ("world_size", 1), ("prefetch", 0), ("seed", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, not {getattr(self, name)}")
        if not 0 <= self.rank < self.world_size:
            raise ValueError(f"rank must be 0 to {self.world_size - 1}, not {self.rank}")
        if self.batch_size % self.world_size:
            raise ValueError(f"batch_size {self.batch_size} does not divide among {self.world_size} ranks")


class Position(NamedTuple):
    """Where a run stands: samples into an epoch."""

    epoch: int
    sample: int


class Stretch(NamedTuple):
    """The samples of one batch, of all ranks, as places in an epoch."""

    epoch: int
    start: int
    stop: int


def next_stretch(position: Position, count: int, batch_size: int, drop_last: bool) -> Stretch:
    """The batch that follows `position`; batches never reach over the end of an epoch."""
    epoch, start = position
    if start >= count or (drop_last and start + batch_size > count):
        epoch, start = epoch + 1, 0
    return Stretch(epoch, start, min(start + batch_size, count))


class Loader:
    """Endless batches by iteration, one pass by `epoch()`; `state()` is where the last batch ended."""

    def __init__(self, data: GatherSource, config: LoaderConfig, *, device: torch.device | str = "cpu") -> None:
        if len(data) == 0 or (config.drop_last and len(data) < config.batch_size):
            raise ValueError(
                f"a batch of {config.batch_size} needs more than {plural(len(data), 'sample')}; "
                "use a smaller batch_size or drop_last=False"
            )
        self.data, self.config, self.device = data, config, torch.device(device)
        if self.device.type == "cuda" and self.device.index is None:
            # The loader's thread has a current device of its own.
            self.device = torch.device("cuda", torch.cuda.current_device())
        self.position = Position(0, 0)
        self._order: tuple[int, Int[np.ndarray, " n"]] = (-1, np.arange(0))

    def __len__(self) -> int:
        """Batches in an epoch."""
        batches, rest = divmod(len(self.data), self.config.batch_size)
        return batches + (rest > 0 and not self.config.drop_last)

    def state(self) -> dict[str, int]:
        """What a checkpoint keeps."""
        return {"seed": self.config.seed, "count": len(self.data), **self.position._asdict()}

    def load_state(self, state: Mapping[str, int]) -> None:
        """Continue from `state`, with any batch size and number of ranks."""
        for name, here in (("seed", self.config.seed), ("count", len(self.data))):
            if state[name] != here:
                raise ValueError(f"the run was started with {name} {state[name]}, this loader has {here}")
        position = Position(int(state["epoch"]), int(state["sample"]))
        if position.epoch < 0 or not 0 <= position.sample <= len(self.data):
            raise ValueError(f"{position} lies outside of {plural(len(self.data), 'sample')}")
        self.position = position

    def __iter__(self) -> Iterator[Batch]:
        return self._batches(until=None)

    def epoch(self) -> Iterator[Batch]:
        """What is left of the current epoch, or all of the next if nothing is."""
        upcoming = self._after(self.position)
        return self._batches(until=upcoming.epoch + 1)

    def _after(self, position: Position) -> Stretch:
        return next_stretch(position, len(self.data), self.config.batch_size, self.config.drop_last)

    def _batches(self, until: int | None) -> Iterator[Batch]:
        pending: deque[tuple[Stretch, Future[Batch]]] = deque()
        pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="loader")
        try:
            stretch = self._after(self.position)
            while True:
                while len(pending) <= self.config.prefetch and (until is None or stretch.epoch < until):
                    pending.append((stretch, pool.submit(self._make, stretch)))
                    stretch = self._after(Position(stretch.epoch, stretch.stop))
                if not pending:
                    return
                taken, future = pending.popleft()
                batch = future.result()
                self.position = Position(taken.epoch, taken.stop)
                if len(batch.indices):
                    yield batch
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _make(self, stretch: Stretch) -> Batch:
        """Gather bytes, move them to the training device, crop them there, and only then make floats."""
        config = self.config
        places = np.arange(stretch.start + config.rank, stretch.stop, config.world_size)
        indices = self._epoch_order(stretch.epoch)[places]
        images, labels = (self._move(torch.from_numpy(array)) for array in self.data.gather(indices))
        if config.pad:
            offsets = crop_offsets(config.seed, stretch.epoch * len(self.data) + places, config.pad)
            offsets = self._move(offsets)
            images = pad_and_crop(images, offsets, config.pad)
            labels = pad_and_crop(labels, offsets, config.pad)
        planes = images.permute(0, 3, 1, 2).to(torch.float32, memory_format=torch.contiguous_format)
        return Batch(planes.div_(255), labels.long(), self._move(torch.from_numpy(indices)))

    def _epoch_order(self, epoch: int) -> Int[np.ndarray, " n"]:
        if not self.config.shuffle:
            return np.arange(len(self.data))
        known, order = self._order
        if known != epoch:
            order = np.random.default_rng([self.config.seed, epoch]).permutation(len(self.data))
            self._order = (epoch, order)
        return order

    def _move(self, tensor: Tensor) -> Tensor:
        if self.device.type == "cuda":
            return tensor.pin_memory().to(self.device, non_blocking=True)
        return tensor.to(self.device)
