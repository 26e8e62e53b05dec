"""`coca explore` as a process of its own, for a browser that looks at it: the film's and the tests'."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
"""Of a chromium that looks at this server and at nothing else."""


@contextmanager
def served(*words: str) -> Iterator[str]:
    """`coca explore …` as long as needed; its address."""
    line = [sys.executable, "-m", "cocanet", "explore", *words, "--no-browser", "--port", "0"]
    server = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield server.stdout.readline().split()[0]
    finally:
        server.terminate()
        server.wait(20)
