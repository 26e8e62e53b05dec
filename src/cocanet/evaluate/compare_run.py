"""One run of a comparison: trained in its own process, then evaluated."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from cocanet.config.serialization import to_dict
from cocanet.evaluate.compare import NOTE_FILE, Job, read_note, write_note
from cocanet.evaluate.evaluation import FILE, read_evaluation, write_evaluation
from cocanet.evaluate.overrides import EvaluationSettings
from cocanet.evaluate.runs import ScoredRun, score_run
from cocanet.evaluate.trained import evaluate_trained, with_paper_masks
from cocanet.io.run_folder import RunFolder
from cocanet.io.weights import read_weights
from cocanet.metrics.table import SCORES
from cocanet.models.build import build
from cocanet.progress import QUIET, Progress
from cocanet.runtime import spin_briefly
from cocanet.train.interrupt import Interrupt, Stopped

CHILD = "cocanet.cli.compare_child"
"""The program that trains."""
COSTS = ("parameters", "images", "images_per_second", "evaluation_images_per_second", "peak_bytes")
"""Costs of a run, kept with its scores; `images` counts those seen in training."""
PAPER_MASKS = {f"paper_masks_{name}": name for name in SCORES if name.startswith("encoder")}
"""Encoder scores with the paper's normalisation, and the usual scores that they belong to."""
Trainer = Callable[[Job], None]
"""Starts or resumes a run. Leaves the run and its note, or raises `Stopped`."""


class Failure(NamedTuple):
    seed: int
    reason: str


def run_job(job: Job, trainer: Trainer, progress: Progress = QUIET) -> ScoredRun | Failure:
    """Train and evaluate a run, unless that is done already."""
    if not job.finished:
        clear_failure(job)
        trainer(job)
        failed = read_note(job.run).failed
        if failed is not None:
            return Failure(job.seed, failed)
    try:
        if not _by_protocol(job):
            (job.run / FILE).unlink()
        scored = score_run(job.run, progress)
        return replace(scored, scores={**scored.scores, **_paper_mask_scores(job), **_costs(job)})
    except (ValueError, OSError, MemoryError, RuntimeError) as error:
        return Failure(job.seed, f"not evaluated: {(str(error).splitlines() or [type(error).__name__])[0]}")


def _costs(job: Job) -> dict[str, float | None]:
    """`COSTS` of an evaluated run."""
    folder = RunFolder(job.run)
    model = build(folder.read_settings().preset)
    notes = read_weights(folder.last).notes
    evaluation = read_evaluation(job.run)
    found = {
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "images": notes["images"],
        "images_per_second": notes["images"] / notes["seconds"],
        "evaluation_images_per_second": evaluation.speed.images_per_second if evaluation else None,
        "peak_bytes": read_note(job.run).peak_bytes,
    }
    return {name: None if value is None else float(value) for name, value in found.items()}


def _by_protocol(job: Job) -> bool:
    """Whether a run's evaluation, if any, is of the last weights on the comparison's data, by the protocol."""
    found = read_evaluation(job.run)
    if found is None:
        return True
    expected = (RunFolder(job.run).last.name, job.preset.name, job.comparison.data)
    return expected == (found.weights, found.preset, found.data.path) and not found.off_protocol


def _paper_mask_scores(job: Job) -> dict[str, float | None]:
    """Encoder scores with the paper's normalisation, for attention models."""
    if with_paper_masks(job.preset) == job.preset:
        return {}
    folder = job.run / "paper-masks"
    found = read_evaluation(folder)
    if found is None or found.step != read_weights(RunFolder(job.run).last).notes["step"]:
        fresh = evaluate_trained(job.run, EvaluationSettings(paper_masks=True))
        write_evaluation(fresh, folder)
        found = fresh
    return {name: found.scores[usual] for name, usual in PAPER_MASKS.items()}


def train_in_child(job: Job) -> None:
    """Train in a child process, so that no model pays for another's memory.

    Ctrl-C and SIGTERM let the child save, then raise `Stopped`; a second signal ends it at once.
    """
    threads = str(job.comparison.threads)
    environment = {**os.environ, "OMP_NUM_THREADS": threads}
    spin_briefly(environment)
    command = [sys.executable, "-m", CHILD, str(job.run)]
    settings = json.dumps(to_dict(job.settings)).encode()
    with Interrupt() as interrupt:
        # Its own process group: the parent alone receives the terminal's Ctrl-C, and passes it on once.
        child = subprocess.Popen(command, env=environment, process_group=0, stdin=subprocess.PIPE)
        try:
            _send(child, settings)
            code = _wait(child, interrupt)
        except BaseException:
            child.kill()
            child.wait()
            raise
    if interrupt.signal:
        raise Stopped(f"{job.title} was stopped", interrupt.signal)
    note = read_note(job.run)
    if code != 0 and note.failed is None:
        write_note(job.run, replace(note, failed=_reason(code)))


def clear_failure(job: Job) -> None:
    """Forget an earlier failure, so that the run resumes from its last checkpoint."""
    if RunFolder(job.run).exists:
        write_note(job.run, replace(read_note(job.run), failed=None))
    else:
        # A new run needs an empty folder.
        (job.run / NOTE_FILE).unlink(missing_ok=True)


def _send(child: subprocess.Popen[bytes], settings: bytes) -> None:
    assert child.stdin is not None
    # If the child has ended already, its exit code says why.
    with suppress(BrokenPipeError), child.stdin as pipe:
        pipe.write(settings)


def _wait(child: subprocess.Popen[bytes], interrupt: Interrupt) -> int:
    passed_on = False
    while child.poll() is None:
        with suppress(subprocess.TimeoutExpired):
            child.wait(timeout=0.5)
        if interrupt.signal and not passed_on:
            # Not SIGINT: a child that is still importing would answer it with a traceback.
            child.send_signal(signal.SIGTERM)
            passed_on = True
    return child.returncode


def _reason(code: int) -> str:
    if code == -signal.SIGKILL:
        return "its process was killed, as happens when memory runs out"
    return f"its process ended with {signal.Signals(-code).name if code < 0 else f'exit code {code}'}"
