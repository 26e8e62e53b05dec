"""A report on disk: one table in three formats, and the curves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cocanet.figures import save
from cocanet.files import write_atomically
from cocanet.report.plots import plot_curves
from cocanet.report.runs import Group, find_runs, group_runs, measure, measure_elsewhere
from cocanet.report.tables import csv_text, latex_text, markdown_text
from cocanet.watch import QUIET, Watcher


def write_report(
    paths: Sequence[Path], out: Path = Path("report"), watcher: Watcher = QUIET, *, evaluate: bool = True
) -> list[Group]:
    """Write the tables of all runs below `paths`, and plot their validation scores."""
    runs = find_runs(paths)
    measured = [measure(run, watcher, evaluate=evaluate) for run in runs]
    groups = group_runs([*measured, *(found for run in runs for found in measure_elsewhere(run))])
    out.mkdir(parents=True, exist_ok=True)
    texts = {"report.md": markdown_text(groups), "report.csv": csv_text(groups), "report.tex": latex_text(groups)}
    for name, text in texts.items():
        write_atomically(out / name, [text.encode()])
    written = list(texts)
    if any(run.curve for run in measured):
        save(plot_curves([group for group in groups if any(run.curve for run in group.runs)]), out / "report.png")
        written.append("report.png")
    watcher.say(texts["report.md"])
    watcher.say(f"Wrote {', '.join(written)} to {out}")
    return groups
