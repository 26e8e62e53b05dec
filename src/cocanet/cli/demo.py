"""`coca demo`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True)
class Demo:
    """Find the objects of fresh scenes with the weights that come with the package: scores and pictures."""

    names: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="NAME…")] = ()
    """Names of weights to show; all that come with the package if left out."""
    out: Path = Path("demo")
    """Folder for the scenes and the pictures."""

    def run(self) -> None:
        from cocanet.cli.demonstration import run_demo

        run_demo(self.out, self.names)
