"""A training run: set up, stages, one visible loop, checkpoints and validation."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cocanet.data.loader import Batch
from cocanet.io import journal
from cocanet.io.run_folder import RunFolder, Settings, check_new, check_same
from cocanet.io.weights import write_weights
from cocanet.progress import QUIET, Progress
from cocanet.train.checkpoint import TrainState, save_checkpoint
from cocanet.train.interrupt import Interrupt, Stopped
from cocanet.train.optimiser import set_learning_rate
from cocanet.train.processes import gather, largest, mean
from cocanet.train.session import Session, make_fabric, set_up
from cocanet.train.validate import validate
from cocanet.words import plural

VALIDATIONS = 20
"""Validations in a run, unless the settings give an interval."""
VALIDATION_SHARE = 0.1
"""Share of a timed run that validation may take: it scores fewer images, and then validates less often."""
EARLY = 0.25
"""Warnings start at this share of a run; before it every decoder shows failure modes. The journal has them all."""


def train(
    settings: Settings, out: Path, *, resume: bool = False, restart: bool = False, progress: Progress = QUIET
) -> TrainState:
    """Carry out a run in the folder `out`, or go on with the one in it; returns where it ended.

    `restart` begins the run in the folder again at step 0. One process trains in a folder at a time. Ctrl-C and
    SIGTERM save a checkpoint and raise `Stopped`.
    """
    folder = RunFolder(out)
    resume = (resume or restart) and folder.exists
    check_same(folder, settings) if resume else check_new(folder)
    fabric = make_fabric(settings)
    fabric.launch()
    with ExitStack() as holding:
        if resume and fabric.is_global_zero:
            holding.enter_context(folder.held())
            if restart:
                folder.clear()
        fabric.barrier()
        return run(set_up(fabric, settings, folder, resume, progress, holding), out)


def run(session: Session, out: Path) -> TrainState:
    """Train until the end or a signal."""
    if session.state.finished and _done(session) >= 1:
        session.progress.say(f"{out} is finished: {plural(session.state.step, 'step')}")
        return session.state
    session.state.finished = False
    with session.progress.training(session.settings.preset, session.run.minutes), Interrupt() as interrupt:
        try:
            fit(session, interrupt)
        except (ValueError, OSError) as error:
            session.folder.log(str(error))
            raise
        finally:
            session.scalars.close()
    if interrupt.signal:
        name = signal.Signals(interrupt.signal).name
        message = f"{name}: saved step {session.state.step} in {out}; the same command with --resume continues it"
        raise Stopped(message, interrupt.signal)
    return session.state


def fit(session: Session, interrupt: Interrupt) -> None:
    """Run stage after stage until the steps or the minutes are spent, or a signal comes."""
    began = time.monotonic() - session.state.seconds
    session.speed.measure(session.state)
    stopped = False
    while not (session.state.finished or stopped):
        number = session.train.position(_done(session)).number
        if number > session.state.stage:
            session.enter_stage(number)
        stopped = fit_stage(session, interrupt, began)


def fit_stage(session: Session, interrupt: Interrupt, began: float) -> bool:
    """The loop of one stage; returns whether a signal stopped it, on which all processes agree.

    A signal that comes during a validation or while a checkpoint is saved counts from the next step on.
    """
    state = session.state
    done = _done(session)
    for batch in session.stage.loader:
        loss, rate = step(session, batch, done)
        state.step += 1
        state.images += session.train.batch_size
        state.seconds = time.monotonic() - began
        state.losses.append(loss)
        state.loader = session.stage.loader.state()
        before, done = done, _done(session)
        stop = largest(session.fabric, interrupt.signal)
        state.finished = done >= 1
        if session.leads:
            _show(session, loss, rate, done)
            if _validation_due(session, before, done):
                began_validation = time.monotonic()
                run_validation(session, done)
                session.count_validation(time.monotonic() - began_validation)
            if state.step % session.run.checkpoint_every == 0 or stop or state.finished:
                save_checkpoint(
                    session.folder.last,
                    session.settings.preset,
                    session.stage.model,
                    session.stage.optimiser.optimizer,
                    state,
                )
        if stop:
            interrupt.signal = int(stop)
            return True
        if state.finished or session.train.position(done).number > state.stage:
            break
    return False


def step(session: Session, batch: Batch, done: float) -> tuple[float, float]:
    """One step of the optimiser; returns the loss and the learning rate."""
    stage, train = session.stage, session.train
    steps = stage.config.share * train.steps
    timed = session.run.minutes is not None
    at = train.position(done).done * steps if timed else session.state.step - train.first_step(session.state.stage)
    rate = set_learning_rate(stage.optimiser, stage.config.schedule, max(0, at), steps)
    torch.manual_seed(_step_seed(session))
    stage.model.anneal(done)
    loss: Tensor = stage.objective(batch.images, batch.features)
    value = mean(session.fabric, loss.detach())
    if not math.isfinite(value):
        raise ValueError(_not_finite(session, batch, value))
    session.fabric.backward(loss)
    if train.clip_norm is not None:
        session.fabric.clip_gradients(stage.objective, stage.optimiser, max_norm=train.clip_norm)
    stage.optimiser.step()
    stage.optimiser.zero_grad()
    return value, rate


def run_validation(session: Session, done: float) -> None:
    """Validate at the full image size, report, and keep the best weights."""
    state, folder = session.state, session.folder
    picture = folder.picture(state.step)
    # As many images at once as in training: these fit into memory.
    share = max(1, session.train.batch_size // session.fabric.world_size)
    # The first validation of a timed run measures how many images there is time for; the others score as many.
    found = validate(
        session.full_size_model,
        session.validation,
        share,
        session.fabric.device,
        picture,
        most=state.validation_images,
        seconds=_first_validation(session),
        token_decoder=session.settings.preset.has_token_decoder,
    )
    state.validation_images = state.validation_images or found.images
    warnings = [diagnosis.message for diagnosis in found.diagnoses]
    seen = {"scored": found.images, "scores": found.scores, "warnings": warnings}
    line = {"kind": "validation", **state.where(), **seen}
    journal.append(folder.metrics, line)
    session.progress.validation(state.step, found.scores)
    for diagnosis in found.diagnoses if done >= EARLY else ():
        if diagnosis.name not in session.warned:
            session.warned.add(diagnosis.name)
            session.progress.warn(diagnosis.message)
            folder.log(f"step {state.step}: {diagnosis.message}")
    session.scalars.add(state.step, {f"validation/{name}": value for name, value in found.scores.items()})
    session.scalars.picture(state.step, "validation", picture)
    if state.best_mse is None or found.scores["mse"] < state.best_mse:
        state.best_mse = found.scores["mse"]
        notes: Mapping[str, Any] = {"step": state.step, "images": state.images, "scores": found.scores}
        write_weights(folder.best, session.settings.preset, session.stage.model.state_dict(), notes)


def _show(session: Session, loss: float, rate: float, done: float) -> None:
    state, speed = session.state, session.speed
    log_due = state.step % session.run.log_every == 0 or state.finished
    if log_due or math.isnan(speed.value):
        speed.measure(state)
    session.progress.update(state.step, loss, speed.value, state.seconds, done)
    if not log_due:
        return
    values = {
        "loss": math.fsum(state.losses) / len(state.losses),
        "learning_rate": rate,
        "images_per_second": round(speed.value, 2),
    }
    journal.append(session.folder.metrics, {"kind": "train", **state.where(), **values})
    session.scalars.add(state.step, {f"train/{name}": value for name, value in values.items()})
    state.losses.clear()


def _done(session: Session) -> float:
    """The share of the run that lies behind: the same on every process."""
    if session.run.minutes is None:
        return session.state.step / session.train.steps
    return largest(session.fabric, session.state.seconds / (60 * session.run.minutes))


def _validation_due(session: Session, before: float, done: float) -> bool:
    if done >= 1:
        return True
    if session.run.validate_every is not None:
        return session.state.step % session.run.validate_every == 0
    if session.run.minutes is not None and session.validating > VALIDATION_SHARE * session.state.seconds:
        return False
    return math.floor(before * VALIDATIONS) < math.floor(done * VALIDATIONS)


def _first_validation(session: Session) -> float | None:
    """Seconds that the first validation of a timed run may take."""
    run = session.run
    if session.state.validation_images is not None or run.minutes is None or run.validate_every is not None:
        return None
    return 60 * run.minutes * VALIDATION_SHARE / VALIDATIONS


def _step_seed(session: Session) -> int:
    """What a step draws at random depends on the run's seed, the step and the process, never on the past."""
    entropy = (session.run.seed, session.state.step, session.fabric.global_rank)
    return int(np.random.SeedSequence(entropy).generate_state(1)[0])


def _not_finite(session: Session, batch: Batch, loss: float) -> str:
    indices = gather(session.fabric, batch.indices).tolist()
    last = session.folder.last
    saved = f"{last} is intact" if last.exists() else "there was no checkpoint yet"
    return (
        f"the loss is {loss} at step {session.state.step}, on images {indices}; {saved}. "
        f"Try --clip-norm 1, or a lower learning rate (--stages.{session.state.stage}.optimiser.learning-rate)"
    )
