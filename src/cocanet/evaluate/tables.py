"""Parts of the tables of `coca report` and `coca compare`, as Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from itertools import groupby

from cocanet.data.readers import PHOTOGRAPHS
from cocanet.evaluate.evaluation import Baseline, mask_scores
from cocanet.evaluate.provenance import KINDS
from cocanet.evaluate.runs import Group
from cocanet.metrics import table
from cocanet.metrics.table import OVERLAPS, SCORES, TABLE
from cocanet.paper_scores import TITLES, PaperRow, notes_beside

PAPER_STEPS = 500_000
"""Steps of COCA-Net; the paper gives none for its baselines, nor for photographs."""
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
"""Header for rows of model, seeds, steps and the nine scores."""


def score_text(group: Group, name: str) -> str:
    """Mean and deviation; a dash where there is no score, or where decoder masks only repeat the encoder's."""
    if name.startswith("decoder_") and group.decoder_repeats_encoder:
        return table.text(name, None)
    return table.text(name, group.mean(name), group.deviation(name))


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table of rows of equal length, the first of them the header; aligned to read as text too."""
    wide = [max(3, *map(len, column)) for column in zip(*rows, strict=True)]
    line = ["-" * wide[0], *("-" * (width - 1) + ":" for width in wide[1:])]
    cells = [
        [row[0].ljust(wide[0]), *(cell.rjust(width) for cell, width in zip(row[1:], wide[1:], strict=True))]
        for row in (rows[0], line, *rows[1:])
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def baseline_table(groups: Sequence[Group]) -> list[str]:
    """The encoders of groups, and below them the non-learned baselines on the same images, if they were scored."""
    baselines = baselines_of(groups)
    if not baselines:
        return []
    names = mask_scores(single=is_single(groups))
    rows = [["baselines", *map(table.title, names)]]
    for group in groups:
        rows.append([f"{group.title}, encoder", *(score_text(group, f"encoder_{name}") for name in names)])
    rows += [[each.title, *(table.text(name, each.scores.get(name)) for name in names)] for each in baselines]
    return [markdown_table(rows) + "\n"]


def baselines_of(groups: Sequence[Group]) -> list[Baseline]:
    """The baselines of all runs, each once: most are the same for any model."""
    names = mask_scores(single=is_single(groups))
    found: dict[tuple[str, ...], Baseline] = {}
    for each in (baseline for group in groups for run in group.runs for baseline in run.baselines):
        # Compared as printed: batches of another size may differ in the last bits.
        found.setdefault((each.title, *(table.text(name, each.scores.get(name)) for name in names)), each)
    return list(found.values())


def csv_text(groups: Sequence[Group], names: Sequence[str] = tuple(TABLE)) -> str:
    """A line for each score of each group with the paper's score; nothing is rounded."""
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
    for _, found in by_data(groups):
        for baseline in baselines_of(found):
            known = [found[0].data_name, baseline.title]
            for name, value in baseline.scores.items():
                writer.writerow([*known, name, _plain(value), "", "", "", found[0].runs[0].sha256 or "", *[""] * 4])
    return text.getvalue()


def latex_overlaps(names: Sequence[str], rows: Sequence[str]) -> list[str]:
    """A second table for images of one object on a background."""
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


def by_data(groups: Sequence[Group]) -> Iterator[tuple[str, list[Group]]]:
    """Groups by the data that they were tested on."""
    for data, found in groupby(groups, key=lambda group: group.data_name):
        yield data, list(found)


def shown(groups: Sequence[Group]) -> list[str]:
    """Scores of a table; IoU and Dice come first for images of one object."""
    single = is_single(groups)
    overlaps = [name for name in OVERLAPS if single and any(group.mean(name) is not None for group in groups)]
    return [*overlaps, *SCORES]


def is_single(groups: Sequence[Group]) -> bool:
    """Whether every image shows one object on a background."""
    return all(run.single for group in groups for run in group.runs)


def papers_of(groups: Sequence[Group]) -> list[PaperRow]:
    """The paper's rows for the groups, each once."""
    papers: list[PaperRow] = []
    for group in groups:
        if group.paper is not None and group.paper not in papers:
            papers.append(group.paper)
    return papers


def paper_cells(paper: PaperRow, names: Sequence[str] = SCORES) -> list[str]:
    """Title, seeds, steps and scores of the paper."""
    scores = [str(paper.scores[name]) if name in paper.scores else "–" for name in names]
    known = paper.model.startswith("coca-net") and paper.data_set not in PHOTOGRAPHS
    steps = f"{PAPER_STEPS:,}" if known else "–"
    return [f"paper's {TITLES[paper.model]}", str(paper.seeds), steps, *scores]


def notes_on(groups: Sequence[Group]) -> Iterator[str]:
    """Sentences that qualify the scores: images, training, decoder, and whether masks were refined."""
    evaluations = [run.evaluation for group in groups for run in group.runs if run.evaluation]
    tested = {evaluation.data.sha256: evaluation.data.source for evaluation in evaluations}
    for sha256, source in tested.items():
        yield f"Tested on {KINDS[source]}s, sha256 `{sha256}`."
    if "generated" in tested.values() and any(group.paper for group in groups):
        yield "The paper's scores are of the published images."
    yield from dict.fromkeys(note for paper in papers_of(groups) for note in notes_beside(paper, groups[0].data_name))
    for group in groups:
        known = group.runs[0].provenance
        if known is not None:
            yield f"{group.title}: trained by {known.training}; {known.decoder}; {known.masks}."
    if any(run.sha256 is None for group in groups for run in group.runs):
        yield "Groups marked *validation* show the last validation scores of their runs, not test scores."


def steps_text(group: Group) -> str:
    """Steps of the runs, from the fewest to the most."""
    steps = sorted({run.step for run in group.runs if run.step is not None})
    if not steps:
        return "–"
    return f"{steps[0]:,}" if len(steps) == 1 else f"{steps[0]:,}–{steps[-1]:,}"


def _plain(value: float | None) -> str:
    return "" if value is None else repr(value)


def escape(text: str) -> str:
    """Text for LaTeX."""
    special = {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "±": r"$\pm$",
        "–": "--",
    }
    special |= {letter: f"\\{letter}" for letter in "_&%#${}"}
    return "".join(special.get(letter, letter) for letter in text)
