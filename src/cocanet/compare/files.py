"""A comparison on disk: its tables and curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from cocanet.compare.rows import Failure, groups_of, rows_of
from cocanet.compare.settings import Comparison, Job
from cocanet.compare.table import comparison_csv, latex_text, markdown_text
from cocanet.figures import save
from cocanet.files import write_atomically
from cocanet.report.plots import CLOCKS, plot_curves
from cocanet.report.runs import Measured
from cocanet.report.tables import is_single

CURVES = ("decoder_ari_fg", "encoder_ari_fg", "mse")
CURVES_SINGLE = ("encoder_iou", "encoder_dice", "mse")
"""Of images that show one thing each."""
NAME = "comparison"


def write_comparison(
    folder: Path, comparison: Comparison, results: Mapping[Job, Measured | Failure], missing: Sequence[Job] = ()
) -> str:
    """Write tables and curves of the runs so far; returns the one for people."""
    rows = rows_of(results)
    text = markdown_text(rows, comparison, missing)
    texts = {"md": text, "csv": comparison_csv(rows), "tex": latex_text(rows, comparison, missing)}
    for suffix, content in texts.items():
        write_atomically(folder / f"{NAME}.{suffix}", [content.encode()])
    groups = groups_of(rows)
    if any(run.curve for group in groups for run in group.runs):
        clock = {"seconds": CLOCKS["seconds"]}
        labels = [group.title for group in groups]
        names = CURVES_SINGLE if is_single(groups) else CURVES
        save(plot_curves(groups, names=names, clocks=clock, labels=labels), folder / f"{NAME}.png")
    return text
