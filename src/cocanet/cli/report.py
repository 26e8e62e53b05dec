"""`coca report`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True)
class Report:
    """Compare runs: mean and deviation over seeds, beside the paper's values, as tables and a plot."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN…")]
    """Run folders, or folders of run folders."""
    out: Path = Path("report")
    """Folder for the tables and the plot."""
    no_evaluate: bool = False
    """Show the last validation scores of runs that have not been evaluated, instead of evaluating them."""

    def run(self) -> None:
        from cocanet.cli.console import ConsoleWatcher
        from cocanet.report.files import write_report

        write_report(self.runs, self.out, ConsoleWatcher(), evaluate=not self.no_evaluate)
