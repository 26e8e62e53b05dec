"""Runs in processes of their own: killed at any moment, and divided among two."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cocanet.runs import journal
from tests.train.runs import TINY, losses, noise_store, validations
from tests.train.test_loop import assert_same_checkpoint

pytestmark = pytest.mark.slow
COCA = [sys.executable, "-m", "cocanet.cli"]
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return noise_store(tmp_path_factory.mktemp("noise") / "data", count=60, size=(32, 32))


def arguments(data: Path, out: Path, steps: int) -> list[str]:
    course = ["--steps", str(steps), "--batch-size", "4", "--checkpoint-every", "3", "--log-every", "1"]
    return ["train", "tetrominoes", "--data", str(data), "--out", str(out), *course, *TINY]


def run(command: list[str]) -> None:
    subprocess.run(command, check=True, env=ENVIRONMENT, capture_output=True, text=True, timeout=120)


def kill_after(command: list[str], out: Path, step: int, pause: float) -> None:
    """Start a run, and kill it some time after it has written a step to its journal."""
    process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        if any(line["step"] >= step for line in journal.read(out / "metrics.jsonl")):
            time.sleep(pause)
            break
        time.sleep(0.005)
    process.kill()
    assert process.wait() == -9, "the run was over before it was killed"


def test_killed_at_random_steps_it_goes_on_bit_for_bit(tmp_path, data):
    run([*COCA, *arguments(data, tmp_path / "whole", steps=40)])
    command = [*COCA, *arguments(data, tmp_path / "run", steps=40), "--resume"]
    draw = random.Random(os.environ.get("COCANET_KILL_SEED", "0"))
    for first in (1, 12, 22):
        kill_after(command, tmp_path / "run", draw.randrange(first, first + 8), pause=draw.uniform(0, 0.1))
    run(command)
    assert len(losses(tmp_path / "run")) == 40
    assert losses(tmp_path / "run") == losses(tmp_path / "whole")
    assert validations(tmp_path / "run") == validations(tmp_path / "whole")
    assert_same_checkpoint(tmp_path / "run", tmp_path / "whole")
    assert (tmp_path / "run" / "log.txt").read_text().count("resumed at step") == 3


ENCODER_FIRST = ["--encoder-first", "0.5", "--colour-code", "0.3"]
"""A wrapper for many processes must not wait for the gradients of a decoder that has none."""


@pytest.mark.parametrize(("launcher", "flags"), [("fabric", []), ("torchrun", []), ("fabric", ENCODER_FIRST)])
def test_two_processes_are_one(tmp_path, data, launcher, flags):
    plain = arguments(data, tmp_path / "one", steps=6)
    run([*COCA, *plain, *flags])
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
    return [sys.executable, "-m", "torch.distributed.run", *options, "-m", "cocanet.cli"]
