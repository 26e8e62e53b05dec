"""A report as Markdown for people, CSV for programs and LaTeX for papers: the same numbers in each."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from itertools import groupby

from cocanet.data.readers import PHOTOGRAPHS
from cocanet.evaluation.result import Yardstick, telling
from cocanet.metrics import table
from cocanet.metrics.table import OVERLAPS, SCORES, TABLE
from cocanet.paper_scores import TITLES, PaperRow, notes_beside
from cocanet.report.runs import Group

PAPER_STEPS = 500_000
"""COCA-Net's; the paper does not say how long it trained its rivals, nor either on photographs."""
LATEX_OPENING = (
    r"% \usepackage{booktabs}",
    r"\begin{table*}",
    r"  \centering",
    r"  \scriptsize",
    r"  \setlength{\tabcolsep}{3pt}",
)
LATEX_HEADER = (
    r"    & & & \multicolumn{2}{c}{DEC-FG only} & \multicolumn{2}{c}{DEC-BG included}"
    r" & \multicolumn{2}{c}{ENC-FG only} & \multicolumn{2}{c}{ENC-BG included} & \\",
    r"    \cmidrule(lr){4-5} \cmidrule(lr){6-7} \cmidrule(lr){8-9} \cmidrule(lr){10-11}",
    r"    Model & Seeds & Steps & ARI & mSC & ARI & mSC & ARI & mSC & ARI & mSC & MSE \\",
)
"""Head of a table whose rows are model, seeds, steps and the nine scores."""


def score_text(group: Group, name: str) -> str:
    """Mean and deviation to three digits, of the small MSE to four; a dash where there is no score."""
    return table.text(name, group.mean(name), group.deviation(name))


def markdown_text(groups: Sequence[Group]) -> str:
    """A table for each data set: scores down, groups across, the paper's values beside them."""
    parts = ["# Report\n"]
    for data, found in _by_data(groups):
        names = shown(found)
        columns = [["", "seeds", "steps", *map(table.title, names)], *_rows(found, names)]
        text = markdown_table(list(zip(*columns, strict=True)))
        parts += [f"## {data}\n", text + "\n", *yardstick_text(found), "\n".join(tested_on(found)) + "\n"]
    return "\n".join(parts)


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of equal length, the first of them the header, as a table that is also easy to read as text."""
    wide = [max(3, *map(len, column)) for column in zip(*rows, strict=True)]
    line = ["-" * wide[0], *("-" * (width - 1) + ":" for width in wide[1:])]
    cells = [
        [row[0].ljust(wide[0]), *(cell.rjust(width) for cell, width in zip(row[1:], wide[1:], strict=True))]
        for row in (rows[0], line, *rows[1:])
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def yardstick_text(groups: Sequence[Group]) -> list[str]:
    """The encoders of groups on the same images, and what nobody trained below them; nothing if that is not known."""
    ways = yardsticks_of(groups)
    if not ways:
        return []
    names = telling(single=is_single(groups))
    rows = [["without training", *map(table.title, names)]]
    for group in groups:
        rows.append([f"{group.title}, encoder", *(score_text(group, f"encoder_{name}") for name in names)])
    rows += [[way.title, *(table.text(name, way.scores.get(name)) for name in names)] for way in ways]
    return [markdown_table(rows) + "\n"]


def yardsticks_of(groups: Sequence[Group]) -> list[Yardstick]:
    """The yardsticks of all runs, each once: most are the same for any model."""
    names = telling(single=is_single(groups))
    found: dict[tuple[str, ...], Yardstick] = {}
    for way in (way for group in groups for run in group.runs for way in run.yardsticks):
        # Written alike is the same: batches of another size may differ in the last bits.
        found.setdefault((way.title, *(table.text(name, way.scores.get(name)) for name in names)), way)
    return list(found.values())


def csv_text(groups: Sequence[Group], names: Sequence[str] = tuple(TABLE)) -> str:
    """A line for each score of each group, with the paper's beside it; nothing is rounded."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    ours = ["data", "model", "score", "mean", "deviation", "seeds", "steps", "sha256"]
    writer.writerow([*ours, "paper_model", "paper_mean", "paper_deviation", "paper_seeds"])
    for group in groups:
        paper = group.paper
        for name in names:
            numbers = [_plain(group.mean(name)), _plain(group.deviation(name))]
            known = [group.data_name, group.title, name, *numbers, len(group.runs), steps_text(group)]
            row = [*known, group.runs[0].sha256 or ""]
            if paper is not None and name in paper.scores:
                score = paper.scores[name]
                row += [TITLES[paper.model], _plain(score.mean), _plain(score.deviation), paper.seeds]
            else:
                row += [""] * 4
            writer.writerow(row)
    for _, found in _by_data(groups):
        for way in yardsticks_of(found):
            known = [found[0].data_name, way.title]
            for name, value in way.scores.items():
                writer.writerow([*known, name, _plain(value), "", "", "", found[0].runs[0].sha256 or "", *[""] * 4])
    return text.getvalue()


def latex_text(groups: Sequence[Group]) -> str:
    """One table in the layout of the paper's; it needs `booktabs`."""
    columns = 3 + len(SCORES)
    lines = [
        *LATEX_OPENING,
        r"  \caption{Mean $\pm$ standard deviation over seeds.}",
        rf"  \begin{{tabular}}{{l{'r' * (columns - 1)}}}",
        r"    \toprule",
        *LATEX_HEADER,
    ]
    for data, found in _by_data(groups):
        lines += [r"    \midrule", rf"    \multicolumn{{{columns}}}{{c}}{{{escape(data)}}} \\", r"    \midrule"]
        lines += [f"    {' & '.join(map(escape, row))} \\\\" for row in _rows(found)]
    lines += [r"    \bottomrule", r"  \end{tabular}"]
    for _, found in _by_data(groups):
        overlaps = shown(found)[: -len(SCORES)]
        if overlaps:
            lines += latex_overlaps(
                overlaps, [f"    {' & '.join(map(escape, row))} \\\\" for row in _rows(found, overlaps)]
            )
    return "\n".join([*lines, r"\end{table*}"]) + "\n"


def latex_overlaps(names: Sequence[str], rows: Sequence[str]) -> list[str]:
    """A table below the paper's, for images of one thing on a background."""
    return [
        r"  \par\medskip",
        rf"  \begin{{tabular}}{{l{'r' * (2 + len(names))}}}",
        r"    \toprule",
        f"    Model & Seeds & Steps & {' & '.join(map(table.title, names))} \\\\",
        r"    \midrule",
        *rows,
        r"    \bottomrule",
        r"  \end{tabular}",
    ]


def _by_data(groups: Sequence[Group]) -> Iterator[tuple[str, list[Group]]]:
    for data, found in groupby(groups, key=lambda group: group.data_name):
        yield data, list(found)


def shown(groups: Sequence[Group]) -> list[str]:
    """The scores worth a row: of images of one thing IoU and Dice come first."""
    single = is_single(groups)
    overlaps = [name for name in OVERLAPS if single and any(group.mean(name) is not None for group in groups)]
    return [*overlaps, *SCORES]


def is_single(groups: Sequence[Group]) -> bool:
    """Whether every image shows one thing on a background."""
    return all(run.single for group in groups for run in group.runs)


def _rows(groups: Sequence[Group], names: Sequence[str] = SCORES) -> Iterator[list[str]]:
    """Title, seeds, steps and scores of each group, then those of the paper's that belong to them."""
    for group in groups:
        yield [group.title, str(len(group.runs)), steps_text(group), *(score_text(group, name) for name in names)]
    yield from (paper_cells(paper, names) for paper in _papers(groups) if any(name in paper.scores for name in names))


def _papers(groups: Sequence[Group]) -> list[PaperRow]:
    """The paper's rows that belong to groups, each once."""
    papers: list[PaperRow] = []
    for group in groups:
        if group.paper is not None and group.paper not in papers:
            papers.append(group.paper)
    return papers


def paper_cells(paper: PaperRow, names: Sequence[str] = SCORES) -> list[str]:
    """Title, seeds, steps and scores as the paper has them."""
    scores = [str(paper.scores[name]) if name in paper.scores else "–" for name in names]
    said = paper.model.startswith("coca-net") and paper.data_set not in PHOTOGRAPHS
    steps = f"{PAPER_STEPS:,}" if said else "–"
    return [f"paper's {TITLES[paper.model]}", str(paper.seeds), steps, *scores]


def tested_on(groups: Sequence[Group]) -> Iterator[str]:
    """What the scores were measured on."""
    runs = [run for group in groups for run in group.runs]
    tested = {run.sha256: run.generated for run in runs if run.sha256}
    for sha256, generated in tested.items():
        yield f"{'Generated test scenes' if generated else 'Test images'}, sha256 `{sha256}`."
    if any(tested.values()) and any(group.paper for group in groups):
        yield "The paper's scores are of the published images."
    yield from dict.fromkeys(note for paper in _papers(groups) for note in notes_beside(paper, groups[0].data_name))
    for group in groups:
        known = group.runs[0].provenance
        if known.losses:
            yield f"{group.title}: trained by {known.losses}; at evaluation {known.at_evaluation}."
    if any(run.sha256 is None for group in groups for run in group.runs):
        yield "Groups marked *validation* show the last validation scores of their runs, not test scores."


def steps_text(group: Group) -> str:
    """How many steps the runs took, from the fewest to the most."""
    steps = sorted({run.step for run in group.runs if run.step is not None})
    if not steps:
        return "–"
    return f"{steps[0]:,}" if len(steps) == 1 else f"{steps[0]:,}–{steps[-1]:,}"


def _plain(value: float | None) -> str:
    return "" if value is None else repr(value)


def escape(text: str) -> str:
    """Text as LaTeX takes it."""
    special = {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "±": r"$\pm$",
        "–": "--",
    }
    special |= {letter: f"\\{letter}" for letter in "_&%#${}"}
    return "".join(special.get(letter, letter) for letter in text)
