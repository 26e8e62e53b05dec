"""Workers of a Ray cluster: batches are rows of a Ray Data set, and Ray repeats those of a dead worker."""

from __future__ import annotations

import logging
import os
import pickle
import platform
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

from cocanet.extras import extra
from cocanet.predict.batches import Item, Outcome
from cocanet.predict.workers import Work, Worker

AT_A_TIME = 4096
"""Batches in one Ray Data set; Ray keeps a record of every block of a set."""


class RayWorker:
    """The callable that Ray Data constructs in each worker.

    A mistake, such as weights that this machine lacks, is returned as a value, since Ray would retry an error forever.
    """

    def __init__(self, work: bytes) -> None:
        self.work = work
        self.worker: Worker | None = None

    def __call__(self, rows: dict[str, Any]) -> dict[str, Any]:
        return {"outcomes": [pickle.dumps(self._segment(pickle.loads(batch))) for batch in rows["batch"]]}

    def _segment(self, batch: list[Item]) -> list[Outcome] | ValueError:
        try:
            if self.worker is None:
                self.worker = Worker(pickle.loads(self.work))
            return self.worker.segment(batch)
        except (ValueError, OSError) as error:
            return ValueError(f"a worker on {platform.node()}: {error}")


def segment_by_ray(
    work: Work, batches: Iterable[list[Item]], workers: int | None = None
) -> Generator[Outcome, None, None]:
    """Outcomes in order, from `workers` actors of one core each; by default one for each core of the cluster."""
    ray, remaining = extra("ray.data", "ray", "clusters are used"), iter(batches)
    with _cluster(workers) as cores:
        context = ray.DataContext.get_current()
        context.execution_options.preserve_order = True
        context.enable_progress_bars = False
        while stretch := list(islice(remaining, AT_A_TIME)):
            rows = [{"batch": pickle.dumps(batch)} for batch in stretch]
            found = ray.from_items(rows, override_num_blocks=len(rows)).map_batches(
                RayWorker,
                fn_constructor_args=(pickle.dumps(work),),
                batch_size=None,
                compute=ray.ActorPoolStrategy(size=min(workers or cores, cores, len(rows))),
                num_cpus=1,
            )
            for row in found.iter_rows():
                outcomes = pickle.loads(row["outcomes"])
                if isinstance(outcomes, ValueError):
                    raise outcomes
                yield from outcomes


@contextmanager
def _cluster(workers: int | None) -> Iterator[int]:
    """Cores of the running cluster, or of one that starts on this machine and ends with the run."""
    ray = extra("ray", "ray", "clusters are used")
    ours = not ray.is_initialized()
    if ours:
        os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
        quiet: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
        try:
            ray.init(address="auto", **quiet)
        except ConnectionError:
            ray.init(num_cpus=workers, include_dashboard=False, **quiet)
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    try:
        yield max(1, int(ray.cluster_resources().get("CPU", 1)))
    finally:
        if ours:
            ray.shutdown()
