"""Worker processes on this machine, replaced when they die; outcomes come in the order of the inputs."""

from __future__ import annotations

import multiprocessing
import os
import sys
import traceback
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, Literal

from cocanet.predict import load
from cocanet.predict.batches import Encode, Item, Outcome, segment_batch
from cocanet.predict.image_sources import ImageSource
from cocanet.predict.segment_settings import SegmentSettings
from cocanet.runtime import without_interrupts, without_script

AHEAD = 2
"""Batches that a worker holds, so that it does not wait for the next."""
WINDOW = 4
"""Batches per worker that may be in work, or finished before an earlier one."""
TRIES = 3
"""Workers that may die at one batch before its images are tried one by one."""
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True)
class Work:
    """The name or path of a model, and how to apply it. It is pickled, so it holds nothing large."""

    weights: str
    device: str
    checkpoint: Literal["last", "best"]
    settings: SegmentSettings
    encode: Encode
    sources: Mapping[Path, ImageSource]


class Worker:
    """Loads the model once, then segments batches in one thread."""

    def __init__(self, work: Work) -> None:
        self.work = work
        # onnxruntime reads this variable when it opens a model.
        os.environ["OMP_NUM_THREADS"] = "1"
        self.segmenter = load(work.weights, work.device, checkpoint=work.checkpoint)
        # An exported model has not loaded torch.
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(1)

    def segment(self, batch: list[Item]) -> list[Outcome]:
        work = self.work
        return segment_batch(self.segmenter, batch, work.sources, work.settings, work.encode)


@dataclass(eq=False)
class _Task:
    """A batch in work."""

    batch: list[Item]
    deaths: int = 0
    outcomes: list[Outcome] | None = None


@dataclass(eq=False)
class _Process:
    """A worker and its tasks."""

    process: Any
    pipe: Connection
    ready: bool = False
    tasks: deque[_Task] = field(default_factory=deque)


def segment_by_processes(work: Work, batches: Iterable[list[Item]], workers: int) -> Generator[Outcome, None, None]:
    """Outcomes in order; when a worker dies, another takes over its batches.

    A batch at which several workers died is tried image by image. An image at which yet another dies gets an error:
    some files crash every process that reads them.
    """
    return _Pool(work, batches, workers).outcomes()


class _Pool:
    def __init__(self, work: Work, batches: Iterable[list[Item]], workers: int) -> None:
        self.work, self.batches, self.count = work, iter(batches), workers
        self.order: deque[_Task] = deque()
        """Tasks whose outcomes were not yet returned, in the order of the inputs."""
        self.todo: deque[_Task] = deque()
        self.workers: list[_Process] = []
        self.never_ready = 0
        # Spawned, not forked: torch's threads do not survive a fork, and workers must not inherit the folder's lock.
        self.context = multiprocessing.get_context("spawn")

    def outcomes(self) -> Generator[Outcome, None, None]:
        try:
            self._take()
            self.workers = [self._start() for _ in range(min(self.count, len(self.todo)))]
            while self.order:
                self._hand_out()
                self._listen()
                while self.order and self.order[0].outcomes is not None:
                    yield from self.order.popleft().outcomes or []
                    self._take()
        finally:
            for worker in self.workers:
                worker.process.terminate()
                worker.process.join()

    def _take(self) -> None:
        """Take batches up to the window's end."""
        while len(self.order) < WINDOW * self.count:
            batch = next(self.batches, None)
            if batch is None:
                return
            task = _Task(batch)
            self.order.append(task)
            self.todo.append(task)

    def _hand_out(self) -> None:
        for _ in range(AHEAD):
            for worker in self.workers:
                if self.todo and len(worker.tasks) < AHEAD:
                    task = self.todo.popleft()
                    worker.tasks.append(task)
                    # A broken pipe means a dead worker; `_listen` takes its tasks back.
                    with suppress(OSError):
                        worker.pipe.send(task.batch)

    def _listen(self) -> None:
        for pipe in wait([worker.pipe for worker in self.workers]):
            worker = next(worker for worker in self.workers if worker.pipe is pipe)
            try:
                message = worker.pipe.recv()
            except (EOFError, OSError):
                self._replace(worker)
                continue
            if isinstance(message, Exception):
                raise message
            if message is None:
                worker.ready, self.never_ready = True, 0
            else:
                worker.tasks.popleft().outcomes = message

    def _replace(self, worker: _Process) -> None:
        """Take a dead worker's tasks back, and start another worker."""
        worker.pipe.close()
        worker.process.join()
        self.never_ready += not worker.ready
        if self.never_ready >= TRIES:
            raise ChildProcessError(
                f"{TRIES} workers died before they had loaded the model ({_ending(worker)}); fewer --workers have more "
                "memory each, and finished images are kept"
            )
        if worker.ready and worker.tasks:
            # It died at the first task; it had not begun the others.
            worker.tasks[0].deaths += 1
            if worker.tasks[0].deaths >= TRIES:
                self._give_up(worker.tasks.popleft(), worker)
        self.todo.extendleft(reversed(worker.tasks))
        self.workers[self.workers.index(worker)] = self._start()

    def _give_up(self, task: _Task, worker: _Process) -> None:
        """Try the images of a batch one by one; a single image becomes a failure."""
        if len(task.batch) == 1:
            reason = f"{TRIES} workers died at it ({_ending(worker)})"
            task.outcomes = [Outcome(task.batch[0], None, reason)]
            return
        place = self.order.index(task)
        singles = [_Task([item], deaths=TRIES - 1) for item in task.batch]
        del self.order[place]
        for offset, single in enumerate(singles):
            self.order.insert(place + offset, single)
        self.todo.extendleft(reversed(singles))

    def _start(self) -> _Process:
        here, there = self.context.Pipe()
        process = self.context.Process(target=_work, args=(self.work, there), daemon=True)
        with without_interrupts(), without_script(self.work), _one_thread():
            process.start()
        there.close()
        return _Process(process, here)


def _ending(worker: _Process) -> str:
    code = worker.process.exitcode
    return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"


@contextmanager
def _one_thread() -> Iterator[None]:
    """Processes started here compute with one thread: libraries read these variables when they load."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _work(work: Work, pipe: Connection) -> None:
    inbox: SimpleQueue[list[Item] | None] = SimpleQueue()
    # A thread of its own receives, so that parent and worker never block each other while both send.
    Thread(target=_receive, args=(pipe, inbox), daemon=True).start()
    # A broken pipe means that the parent has ended.
    with suppress(BrokenPipeError, ConnectionResetError):
        try:
            worker = Worker(work)
            pipe.send(None)
            while (batch := inbox.get()) is not None:
                pipe.send(worker.segment(batch))
        except (ValueError, OSError) as error:
            pipe.send(ValueError(str(error)))
        except Exception:
            pipe.send(RuntimeError(f"a worker failed:\n{traceback.format_exc()}"))


def _receive(pipe: Connection, inbox: SimpleQueue[list[Item] | None]) -> None:
    try:
        while True:
            inbox.put(pipe.recv())
    except (EOFError, OSError):
        inbox.put(None)
