"""`coca report`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro


@dataclass(frozen=True)
class Report:
    """Compare runs: mean and deviation over seeds, beside the paper's values, as tables and a plot."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run folders, or folders of run folders."""
    out: Path = Path("report")
    """Folder for the tables and the plot."""
    no_evaluate: bool = False
    """Show the last validation scores of runs that have not been evaluated, instead of evaluating them."""

    def run(self) -> None:
        from cocanet.report.command import run_report

        run_report(self.runs, out=self.out, evaluate=not self.no_evaluate)
