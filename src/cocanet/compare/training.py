"""Carries out a run in a process of its own, so that no model pays for the memory of another."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from cocanet.compare import note
from cocanet.compare.settings import Job
from cocanet.config.plain import to_plain
from cocanet.runs.folder import RunFolder
from cocanet.runtime import spin_briefly
from cocanet.train.interrupt import Interrupt, Stopped

CHILD = "cocanet.cli.compare_child"
"""The program that trains."""
Trainer = Callable[[Job], None]
"""Starts or resumes a run; leaves the run and its note, or raises `Stopped`."""


def train_apart(job: Job) -> None:
    """Train in a child; Ctrl-C and SIGTERM let it save, then raise `Stopped`, a second one ends it at once."""
    threads = str(job.comparison.threads)
    environment = {**os.environ, "OMP_NUM_THREADS": threads}
    spin_briefly(environment)
    command = [sys.executable, "-m", CHILD, str(job.run)]
    settings = json.dumps(to_plain(job.settings)).encode()
    with Interrupt() as interrupt:
        # A group of its own: the terminal's Ctrl-C is for the parent, which passes it on once.
        child = subprocess.Popen(command, env=environment, process_group=0, stdin=subprocess.PIPE)
        try:
            _hand_over(child, settings)
            code = _wait(child, interrupt)
        except BaseException:
            child.kill()
            child.wait()
            raise
    if interrupt.signal:
        raise Stopped(f"{job.title} was stopped", interrupt.signal)
    found = note.read_note(job.run)
    if code != 0 and found.failed is None:
        note.write_note(job.run, replace(found, failed=_reason(code)))


def _hand_over(child: subprocess.Popen[bytes], settings: bytes) -> None:
    assert child.stdin is not None
    # A child that is gone already has left its exit code.
    with suppress(BrokenPipeError), child.stdin as pipe:
        pipe.write(settings)


def clear_failure(job: Job) -> None:
    """Forget an earlier failure: a run that failed is tried again from its last checkpoint."""
    if RunFolder(job.run).exists:
        note.write_note(job.run, replace(note.read_note(job.run), failed=None))
    else:
        # A run begins in an empty folder.
        (job.run / note.FILE).unlink(missing_ok=True)


def _wait(child: subprocess.Popen[bytes], interrupt: Interrupt) -> int:
    passed_on = False
    while child.poll() is None:
        with suppress(subprocess.TimeoutExpired):
            child.wait(timeout=0.5)
        if interrupt.signal and not passed_on:
            # Not SIGINT, which a child that is still importing would answer with a traceback.
            child.send_signal(signal.SIGTERM)
            passed_on = True
    return child.returncode


def _reason(code: int) -> str:
    if code == -signal.SIGKILL:
        return "its process was killed, as happens when memory runs out"
    return f"its process ended with {signal.Signals(-code).name if code < 0 else f'exit code {code}'}"
