"""What `coca report` does: runs side by side, mean and deviation over seeds, the paper's values beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from cocanet.figures import save
from cocanet.files import write_atomically
from cocanet.report.plots import plot_curves
from cocanet.report.runs import Group, find_runs, group_runs, measure
from cocanet.report.tables import csv_text, latex_text, markdown_text


def run_report(paths: Sequence[Path], *, out: Path = Path("report"), evaluate: bool = True) -> list[Group]:
    """Write and print the table of all runs, and plot their validation scores."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    measured = [measure(run, console, evaluate=evaluate) for run in find_runs(paths)]
    groups = group_runs(measured)
    out.mkdir(parents=True, exist_ok=True)
    texts = {"report.md": markdown_text(groups), "report.csv": csv_text(groups), "report.tex": latex_text(groups)}
    for name, text in texts.items():
        write_atomically(out / name, [text.encode()])
    written = list(texts)
    if any(run.curve for run in measured):
        save(plot_curves(groups), out / "report.png")
        written.append("report.png")
    print(texts["report.md"])
    console.print(f"Wrote {', '.join(written)} to {out}")
    return groups
