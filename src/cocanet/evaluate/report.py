"""`coca report`: scores of runs as tables in three formats, and their curves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from cocanet.evaluate.plots import plot_curves
from cocanet.evaluate.runs import Group, find_runs, group_runs, score_run, scores_elsewhere
from cocanet.evaluate.tables import (
    LATEX_HEADER,
    LATEX_OPENING,
    baseline_table,
    by_data,
    csv_text,
    escape,
    latex_overlaps,
    markdown_table,
    notes_on,
    paper_cells,
    papers_of,
    score_text,
    shown,
    steps_text,
)
from cocanet.explain.figures import save
from cocanet.files import write_atomically
from cocanet.metrics.table import SCORES, title
from cocanet.progress import QUIET, Progress


def write_report(
    paths: Sequence[Path], out: Path = Path("report"), progress: Progress = QUIET, *, evaluate: bool = True
) -> list[Group]:
    """Write the tables of all runs below `paths`, and plot their validation scores."""
    runs = find_runs(paths)
    scored = [score_run(run, progress, evaluate=evaluate) for run in runs]
    groups = group_runs([*scored, *(found for run in runs for found in scores_elsewhere(run))])
    out.mkdir(parents=True, exist_ok=True)
    texts = {"report.md": markdown_text(groups), "report.csv": csv_text(groups), "report.tex": latex_text(groups)}
    for name, text in texts.items():
        write_atomically(out / name, [text.encode()])
    written = list(texts)
    if any(run.curve for run in scored):
        save(plot_curves([group for group in groups if any(run.curve for run in group.runs)]), out / "report.png")
        written.append("report.png")
    progress.say(texts["report.md"])
    progress.say(f"Wrote {', '.join(written)} to {out}")
    return groups


def markdown_text(groups: Sequence[Group]) -> str:
    """A table for each data set: scores down, groups across, the paper's values beside them."""
    parts = ["# Report\n"]
    for data, found in by_data(groups):
        names = shown(found)
        columns = [["", "seeds", "steps", *map(title, names)], *_rows(found, names)]
        text = markdown_table(list(zip(*columns, strict=True)))
        notes = "\n".join(f"- {note}" for note in notes_on(found))
        parts += [f"## {data}\n", notes + "\n", text + "\n", *baseline_table(found)]
    return "\n".join(parts)


def latex_text(groups: Sequence[Group]) -> str:
    """One table in the paper's layout; it needs `booktabs`."""
    columns = 3 + len(SCORES)
    lines = [
        *LATEX_OPENING,
        r"  \caption{Mean $\pm$ standard deviation over seeds.}",
        rf"  \begin{{tabular}}{{l{'r' * (columns - 1)}}}",
        r"    \toprule",
        *LATEX_HEADER,
    ]
    for data, found in by_data(groups):
        lines += [r"    \midrule", rf"    \multicolumn{{{columns}}}{{c}}{{{escape(data)}}} \\", r"    \midrule"]
        lines += [f"    {' & '.join(map(escape, row))} \\\\" for row in _rows(found)]
    lines += [r"    \bottomrule", r"  \end{tabular}"]
    for _, found in by_data(groups):
        overlaps = shown(found)[: -len(SCORES)]
        if overlaps:
            lines += latex_overlaps(
                overlaps, [f"    {' & '.join(map(escape, row))} \\\\" for row in _rows(found, overlaps)]
            )
    return "\n".join([*lines, r"\end{table*}"]) + "\n"


def _rows(groups: Sequence[Group], names: Sequence[str] = SCORES) -> Iterator[list[str]]:
    """Title, seeds, steps and scores of each group, then the paper's rows."""
    for group in groups:
        yield [group.title, str(len(group.runs)), steps_text(group), *(score_text(group, name) for name in names)]
    yield from (paper_cells(paper, names) for paper in papers_of(groups) if any(name in paper.scores for name in names))
