"""Workers on this machine: processes that are started anew when they die, results in the order of the inputs."""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue
from threading import Thread
from typing import Any

from cocanet.runtime import without_interrupts, without_script
from cocanet.scale.work import Work, Worker
from cocanet.segment.batches import Item, Outcome

AHEAD = 2
"""Batches that a worker has at a time, so that it need not wait for the next."""
WINDOW = 4
"""Batches for each worker that may be under way or waiting for one before them."""
TRIES = 3
"""Workers that a batch may cost before its images are tried one by one."""
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(eq=False)
class _Task:
    """A batch on its way."""

    batch: list[Item]
    deaths: int = 0
    outcomes: list[Outcome] | None = None


@dataclass(eq=False)
class _Process:
    """A worker, and what it was given."""

    process: Any
    pipe: Connection
    ready: bool = False
    tasks: deque[_Task] = field(default_factory=deque)


def segment_by_processes(work: Work, batches: Iterable[list[Item]], workers: int) -> Generator[Outcome, None, None]:
    """Outcomes in order; what a killed worker had is done by another.

    A batch that has cost several workers is done image by image, and one that costs yet another is an outcome with an
    error: some files bring down whoever reads them.
    """
    return _Pool(work, batches, workers).outcomes()


class _Pool:
    def __init__(self, work: Work, batches: Iterable[list[Item]], workers: int) -> None:
        self.work, self.batches, self.count = work, iter(batches), workers
        self.order: deque[_Task] = deque()
        """Tasks that were taken and not yet handed out, in the order of the inputs."""
        self.todo: deque[_Task] = deque()
        self.workers: list[_Process] = []
        self.never_ready = 0
        # Spawned, not forked: torch's threads do not survive a fork, nor should the folder's lock.
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
                    # A broken pipe is a dead worker, whose tasks are taken back when its end is heard of.
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
        """Give a dead worker's tasks back, and start another in its place."""
        worker.pipe.close()
        worker.process.join()
        self.never_ready += not worker.ready
        if self.never_ready >= TRIES:
            raise ChildProcessError(
                f"{TRIES} workers died before they had loaded the model ({_ending(worker)}); fewer --workers have more "
                "memory each, and what is finished is kept"
            )
        if worker.ready and worker.tasks:
            # The first is what it was doing; the others it had not begun.
            worker.tasks[0].deaths += 1
            if worker.tasks[0].deaths >= TRIES:
                self._give_up(worker.tasks.popleft(), worker)
        self.todo.extendleft(reversed(worker.tasks))
        self.workers[self.workers.index(worker)] = self._start()

    def _give_up(self, task: _Task, worker: _Process) -> None:
        """Do a batch that costs one worker after the other image by image; a single image goes among the failures."""
        if len(task.batch) == 1:
            reason = f"{TRIES} workers died of it ({_ending(worker)})"
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
    """What is started here computes with one thread, whatever computes: libraries read this when they are loaded."""
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
    # Read as they come: a parent that waits for its message to be taken could not take ours.
    Thread(target=_receive, args=(pipe, inbox), daemon=True).start()
    # A broken pipe means the parent is gone, and with it the reason to go on.
    with suppress(BrokenPipeError, ConnectionResetError):
        try:
            worker = Worker(work)
            pipe.send(None)
            while (batch := inbox.get()) is not None:
                pipe.send(worker.do(batch))
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
