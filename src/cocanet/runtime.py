"""Settings of the process: what makes tensors on a CPU fast, and what its children hear."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from functools import cache

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_LARGE = 1 << 26
"""Tensors above this are returned all the same: kept, a few of them in odd places could double the peak."""

_SPIN = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "10000"}


def spin_briefly(environment: MutableMapping[str, str] = os.environ) -> None:
    """Let a thread that waits for another spin for microseconds before it sleeps; call it before torch is loaded.

    Long spinning, which is torch's default, makes a step several times slower as soon as anything else uses a core;
    none makes it a quarter slower on a machine of one's own. Settings of the environment's own win.
    """
    if not any(name in environment for name in _SPIN):
        environment.update(_SPIN)


@cache
def keep_freed_memory() -> bool:
    """Let glibc keep the memory of freed tensors for the next ones, instead of returning it to the kernel each time.

    Getting it back costs a page fault for every 4 kB, which in a training step takes longer than the arithmetic. Done
    once for a process; the environment's own MALLOC_* settings win, and COCANET_KEEP_MEMORY=0 turns it off. Returns
    whether it was done.
    """
    if not sys.platform.startswith("linux") or os.environ.get("COCANET_KEEP_MEMORY") == "0":
        return False
    if any(name.startswith("MALLOC_") for name in os.environ):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _LARGE)) and bool(mallopt(_TRIM_THRESHOLD, (1 << 31) - 1))


def return_freed_memory() -> None:
    """Return to the kernel what `keep_freed_memory` kept: each thread that ever decoded an image keeps its own."""
    if keep_freed_memory():
        ctypes.CDLL(None).malloc_trim(0)


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Ctrl-C reaches a whole group of processes: those started here never see it, the parent a bit later."""
    from multiprocessing import resource_tracker

    # The first process of multiprocessing starts a tracker, and that lets signals through again.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def without_script(sent: object) -> Iterator[None]:
    """Processes spawned here do not run the user's script again, as they would to know the functions in it.

    So a script needs no `if __name__ == "__main__"`. One that defines something of what a process is sent does.
    """
    import pickle

    main = sys.modules["__main__"]
    # Spawning tells the new process where the script is by these.
    hidden: dict[str, object] = {name: vars(main)[name] for name in ("__spec__", "__file__") if name in vars(main)}
    if b"__main__" in pickle.dumps(sent):
        hidden = {}
    vars(main).update(dict.fromkeys(hidden))
    try:
        yield
    finally:
        vars(main).update(hidden)
