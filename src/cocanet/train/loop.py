"""A training run: set up, one visible loop, and whatever must not be lost along the way."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cocanet.data.loader import Batch
from cocanet.runs import journal
from cocanet.runs.folder import RunFolder, Settings, check_new, check_same, with_division
from cocanet.train.checkpoint import Progress, save_checkpoint
from cocanet.train.display import Display
from cocanet.train.interrupt import Interrupt, Stopped
from cocanet.train.optimiser import set_learning_rate
from cocanet.train.processes import gather, largest, mean
from cocanet.train.session import Session, make_fabric, set_up
from cocanet.train.validation import validate
from cocanet.weights import write_weights
from cocanet.words import plural

VALIDATIONS = 20
"""Looks at the validation split in a run, unless the settings say how often."""
VALIDATION_SHARE = 0.1
"""Share of a run on the clock that may go into those looks: fewer images if all would take longer, then fewer looks."""
EARLY = 0.25
"""Before this share of its time every decoder is ill, and nobody is warned of it; the journal has it all."""


def train(settings: Settings, out: Path, *, resume: bool = False, display: Display | None = None) -> Progress:
    """Carry out a run in the folder `out`, or go on with the one in it; returns where it ended.

    Ctrl-C and SIGTERM save a checkpoint and raise `Stopped`.
    """
    folder = RunFolder(out)
    resume = resume and folder.exists
    settings = with_division(settings, folder if resume else None)
    check_same(folder, settings) if resume else check_new(folder)
    fabric = make_fabric(settings)
    fabric.launch()
    session = set_up(fabric, settings, folder, resume, display or Display())
    if session.progress.finished and _done(session) >= 1:
        session.display.note(f"{out} is finished: {plural(session.progress.step, 'step')}")
        return session.progress
    with session.display, Interrupt() as interrupt:
        try:
            fit(session, interrupt)
        except (ValueError, OSError) as error:
            session.folder.log(str(error))
            raise
        finally:
            session.scalars.close()
    if interrupt.signal:
        name = signal.Signals(interrupt.signal).name
        message = f"{name}: saved step {session.progress.step} in {out}; the same command with --resume continues it"
        raise Stopped(message, interrupt.signal)
    return session.progress


def fit(session: Session, interrupt: Interrupt) -> None:
    """The loop: until the steps or the minutes are spent, or a signal comes."""
    progress, run = session.progress, session.run
    began = time.monotonic() - progress.seconds
    session.speed.measure(progress)
    done = _done(session)
    for batch in session.loader:
        loss, rate = step(session, batch, done)
        progress.step += 1
        progress.images += session.train.batch_size
        progress.seconds = time.monotonic() - began
        progress.losses.append(loss)
        progress.loader = session.loader.state()
        before, done = done, _done(session)
        stop = largest(session.fabric, interrupt.signal)
        progress.finished = done >= 1
        if session.leads:
            _show(session, loss, rate, done)
            if _validation_due(session, before, done):
                began_validation = time.monotonic()
                run_validation(session, done)
                session.count_validation(time.monotonic() - began_validation)
            if progress.step % run.checkpoint_every == 0 or stop or progress.finished:
                save_checkpoint(
                    session.folder.last,
                    session.settings.preset,
                    session.model,
                    session.optimiser.optimizer,
                    progress,
                )
        if stop or progress.finished:
            interrupt.signal = int(stop)
            break


def step(session: Session, batch: Batch, done: float) -> tuple[float, float]:
    """One step of the optimiser; returns the loss and the learning rate."""
    train, progress = session.train, session.progress
    rate = set_learning_rate(session.optimiser, train, done * train.steps if session.run.minutes else progress.step)
    torch.manual_seed(_step_seed(session))
    session.model.anneal(done)
    loss: Tensor = session.objective(batch.images, done)
    value = mean(session.fabric, loss.detach())
    if not math.isfinite(value):
        raise ValueError(_not_finite(session, batch, value))
    session.fabric.backward(loss)
    if train.clip_norm is not None:
        session.fabric.clip_gradients(session.objective, session.optimiser, max_norm=train.clip_norm)
    session.optimiser.step()
    session.optimiser.zero_grad()
    return value, rate


def run_validation(session: Session, done: float) -> None:
    """Validate, tell, and keep the best weights."""
    progress, folder = session.progress, session.folder
    picture = folder.picture(progress.step)
    # As many images at once as in training: memory has room for those.
    share = max(1, session.train.batch_size // session.fabric.world_size)
    # The first look on the clock finds out how many images there is time for; the others take the same, to compare.
    found = validate(
        session.model,
        session.validation,
        share,
        session.fabric.device,
        picture,
        most=progress.validation_images,
        seconds=_first_validation(session),
        by_tokens=session.settings.preset.by_tokens,
    )
    progress.validation_images = progress.validation_images or found.images
    warnings = [finding.message for finding in found.findings]
    seen = {"scored": found.images, "scores": found.scores, "warnings": warnings}
    line = {"kind": "validation", **progress.where(), **seen}
    journal.append(folder.metrics, line)
    session.display.validation(progress.step, found.scores)
    alone = session.train.encoder_first
    for finding in found.findings if done >= alone + EARLY * (1 - alone) else ():
        if finding.disease not in session.warned:
            session.warned.add(finding.disease)
            session.display.warn(finding.message)
            folder.log(f"step {progress.step}: {finding.message}")
    session.scalars.add(progress.step, {f"validation/{name}": value for name, value in found.scores.items()})
    session.scalars.picture(progress.step, "validation", picture)
    if progress.best_mse is None or found.scores["mse"] < progress.best_mse:
        progress.best_mse = found.scores["mse"]
        notes: Mapping[str, Any] = {"step": progress.step, "images": progress.images, "scores": found.scores}
        write_weights(folder.best, session.settings.preset, session.model.state_dict(), notes)


def _show(session: Session, loss: float, rate: float, done: float) -> None:
    progress, speed = session.progress, session.speed
    log_due = progress.step % session.run.log_every == 0 or progress.finished
    if log_due or math.isnan(speed.value):
        speed.measure(progress)
    session.display.update(progress.step, loss, speed.value, progress.seconds, done)
    if not log_due:
        return
    values = {
        "loss": math.fsum(progress.losses) / len(progress.losses),
        "learning_rate": rate,
        "images_per_second": round(speed.value, 2),
    }
    journal.append(session.folder.metrics, {"kind": "train", **progress.where(), **values})
    session.scalars.add(progress.step, {f"train/{name}": value for name, value in values.items()})
    progress.losses.clear()


def _done(session: Session) -> float:
    """The share of the run that lies behind: the same on every process."""
    if session.run.minutes is None:
        return session.progress.step / session.train.steps
    return largest(session.fabric, session.progress.seconds / (60 * session.run.minutes))


def _validation_due(session: Session, before: float, done: float) -> bool:
    if done >= 1:
        return True
    if session.run.validate_every is not None:
        return session.progress.step % session.run.validate_every == 0
    if session.run.minutes is not None and session.validating > VALIDATION_SHARE * session.progress.seconds:
        return False
    return math.floor(before * VALIDATIONS) < math.floor(done * VALIDATIONS)


def _first_validation(session: Session) -> float | None:
    """Seconds that the first look may take, where the clock and not the user says how often to look."""
    run = session.run
    if session.progress.validation_images is not None or run.minutes is None or run.validate_every is not None:
        return None
    return 60 * run.minutes * VALIDATION_SHARE / VALIDATIONS


def _step_seed(session: Session) -> int:
    """What a step draws at random depends on the run's seed, the step and the process, never on the past."""
    entropy = (session.run.seed, session.progress.step, session.fabric.global_rank)
    return int(np.random.SeedSequence(entropy).generate_state(1)[0])


def _not_finite(session: Session, batch: Batch, loss: float) -> str:
    indices = gather(session.fabric, batch.indices).tolist()
    last = session.folder.last
    saved = f"{last} is intact" if last.exists() else "there was no checkpoint yet"
    return (
        f"the loss is {loss} at step {session.progress.step}, on images {indices}; {saved}. "
        "Try --clip-norm 1, a lower --learning-rate, or a longer --warmup-steps"
    )
