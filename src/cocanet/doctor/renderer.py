"""Whether scenes can be rendered, by rendering one; in a process of its own, which a bad driver may crash."""

from __future__ import annotations

import signal
import subprocess
import sys

from cocanet.doctor.finding import Finding

SECONDS = 120.0


def examine_renderer(seconds: float = SECONDS) -> Finding:
    words = [sys.executable, "-m", "cocanet.doctor.drawing"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=seconds)
    except subprocess.TimeoutExpired:
        says = f"MuJoCo and OpenGL are there, but have drawn nothing in {seconds:g} s"
        return Finding("renderer", "broken", says, "set MUJOCO_GL=osmesa (libosmesa6), or MUJOCO_GL=egl, and try again")
    return judge(done.returncode, done.stderr)


def judge(code: int, told: str) -> Finding:
    """By how the process ended, and what it said: 2 and a sentence if something is not installed."""
    lines = told.strip().splitlines() or [f"it ended with exit code {code}"]
    if code == 0:
        return Finding("renderer", "works", "MuJoCo and off-screen OpenGL drew a scene")
    if code == 2:
        need, _, remedy = lines[-1].partition(", install ")
        command = remedy.removeprefix("it with: ")
        return Finding("renderer", "missing", need, f"install {remedy}" if command == remedy else command)
    if code < 0:
        lines = [f"MuJoCo or OpenGL crashed ({signal.Signals(-code).name})"]
    return Finding("renderer", "broken", lines[-1], "set MUJOCO_GL=osmesa (libosmesa6) for OpenGL without a driver")
