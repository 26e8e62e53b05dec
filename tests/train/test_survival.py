"""Runs in processes of their own: killed at any moment, and divided among two."""

from __future__ import annotations

import multiprocessing
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from cocanet.cli import main
from cocanet.config import Muon
from cocanet.io import journal
from cocanet.io.run_folder import Settings
from cocanet.train.loop import train
from tests.train.runs import STAGE, TINY, assert_same_run, losses, noise_store, tiny_settings, validations

pytestmark = pytest.mark.slow
COCA = [sys.executable, "-m", "cocanet"]
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return noise_store(tmp_path_factory.mktemp("noise") / "data", count=60, size=(32, 32))


def arguments(data: Path, out: Path, steps: int) -> list[str]:
    counts = {"steps": steps, "batch-size": 4, "checkpoint-every": 3, "log-every": 1, "validate-every": steps // 2}
    flags = [word for name, count in counts.items() for word in (f"--{name}", str(count))]
    return ["train", "tetrominoes", "--data", str(data), "--out", str(out), *flags, *TINY]


@pytest.fixture
def one_thread() -> Iterator[None]:
    """As many threads as the processes have: sums of other parts have other last bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def run(command: list[str]) -> None:
    subprocess.run(command, check=True, env=ENVIRONMENT, capture_output=True, text=True, timeout=600)


# Processes that begin with torch and without the threads of this one.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["cocanet.train.loop", "cocanet.cli.train"])


def in_child(work: Callable[..., Any], *given: Any) -> Any:
    process = PROCESSES.Process(target=alone, args=(work, *given))
    process.start()
    return process


def alone(work: Callable[..., Any], *given: Any) -> None:
    torch.set_num_threads(1)
    work(*given)


def finish(process: Any) -> None:
    process.join()
    assert process.exitcode == 0


def kill_after(process: Any, out: Path, step: int, pause: float) -> None:
    """Kill a run some time after it has written a step to its journal."""
    while process.is_alive():
        if any(line["step"] >= step for line in journal.read(out / "metrics.jsonl")):
            time.sleep(pause)
            break
        time.sleep(0.005)
    process.kill()
    process.join()
    assert process.exitcode == -9, "the run was over before it was killed"


def test_killed_at_random_steps_it_goes_on_bit_for_bit(tmp_path, data, one_thread):
    main(arguments(data, tmp_path / "whole", steps=40))
    started = arguments(data, tmp_path / "run", steps=40)
    again = [*started, "--resume"]
    draw = random.Random(os.environ.get("COCANET_KILL_SEED", "0"))
    for first in (1, 16):
        process = in_child(main, started if first == 1 else again)
        kill_after(process, tmp_path / "run", draw.randrange(first, first + 12), pause=draw.uniform(0, 0.1))
    finish(in_child(main, again))
    assert len(losses(tmp_path / "run")) == 40
    assert_same_run(tmp_path / "run", tmp_path / "whole")
    assert (tmp_path / "run" / "log.txt").read_text().count("resumed at step") == 2


def staged(data: Path) -> Settings:
    """Three stages of twenty steps: Adam, Muon, and Adam again."""
    stages = (replace(STAGE, share=1 / 3), replace(STAGE, share=1 / 3, optimiser=Muon()), replace(STAGE, share=1 / 3))
    return tiny_settings(data, {"checkpoint_every": 3, "validate_every": 30}, steps=60, stages=stages)


def go_on(data: Path, out: Path) -> None:
    train(staged(data), out, resume=True)


def test_killed_across_stages_it_goes_on_bit_for_bit(tmp_path, one_thread):
    """COCANET_KILLS kills, spread over all stages, checkpoints and validations."""
    data, kills = noise_store(tmp_path / "data"), int(os.environ.get("COCANET_KILLS", "2"))
    train(staged(data), tmp_path / "whole")
    draw = random.Random(os.environ.get("COCANET_KILL_SEED", "0"))
    for kill in range(kills):
        process = in_child(go_on, data, tmp_path / "run")
        kill_after(process, tmp_path / "run", round(2 + 54 * kill / kills), pause=draw.uniform(0, 0.02))
    finish(in_child(go_on, data, tmp_path / "run"))
    assert len(losses(tmp_path / "run")) == 60
    assert_same_run(tmp_path / "run", tmp_path / "whole")


FROZEN = ["--stages.0.trains", "decoder"]
"""A wrapper for many processes must not wait for gradients of parts that are frozen."""


@pytest.mark.parametrize(("launcher", "flags"), [("fabric", FROZEN), ("torchrun", [])])
def test_two_processes_are_one(tmp_path, data, launcher, flags):
    main([*arguments(data, tmp_path / "one", steps=6), *flags])
    start = COCA if launcher == "fabric" else torchrun()
    run([*start, *arguments(data, tmp_path / "two", steps=6), "--devices", "2", *flags])
    one, two = losses(tmp_path / "one"), losses(tmp_path / "two")
    assert [step for step, _ in two] == list(range(1, 7))
    assert [loss for _, loss in two] == pytest.approx([loss for _, loss in one], abs=1e-5)
    assert [line["step"] for line in validations(tmp_path / "two")] == [
        line["step"] for line in validations(tmp_path / "one")
    ]


def torchrun() -> list[str]:
    options = ["--nproc-per-node", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    return [sys.executable, "-m", "torch.distributed.run", *options, "-m", "cocanet"]
