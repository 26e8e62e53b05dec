"""A comparison on disk: tables of scores and costs as Markdown, CSV and LaTeX, and curves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from cocanet.evaluate.compare import Comparison, Job
from cocanet.evaluate.compare_run import COSTS, PAPER_MASKS, Failure
from cocanet.evaluate.plots import CLOCKS, plot_curves
from cocanet.evaluate.runs import Group, ScoredRun
from cocanet.evaluate.tables import (
    LATEX_HEADER,
    LATEX_OPENING,
    baseline_table,
    csv_text,
    escape,
    is_single,
    latex_overlaps,
    markdown_table,
    notes_on,
    paper_cells,
    score_text,
    shown,
    steps_text,
)
from cocanet.explain.figures import save
from cocanet.files import write_atomically
from cocanet.metrics.table import OVERLAPS, SCORES, SLOTS, TABLE, title
from cocanet.words import plural

NAME = "comparison"
CURVES = ("decoder_ari_fg", "encoder_ari_fg", "mse")
CURVES_SINGLE = ("encoder_iou", "encoder_dice", "mse")
"""For images of one object each."""
LONGEST_REASON = 160
NOTHING = "–"


@dataclass(frozen=True)
class Row:
    """A model of the comparison, with its finished and its failed runs."""

    model: str
    group: Group | None
    """Scores and `COSTS` of the finished runs; None if there are none."""
    failures: tuple[Failure, ...] = ()


class Cell(NamedTuple):
    text: str
    best: bool = False


Best = Callable[..., Group]
"""`max` or `min`."""


class Cost(NamedTuple):
    """A column of the table of costs: its numbers, their text, and which of them is best."""

    title: str
    text: Callable[[Group], str]
    name: str | None = None
    best: Best | None = None


def _rate(name: str) -> Callable[[Group], str]:
    def text(group: Group) -> str:
        mean, deviation = group.mean(name), group.deviation(name)
        if mean is None:
            return NOTHING
        return f"{mean:,.1f}" if deviation is None else f"{mean:,.1f} ± {deviation:,.1f}"

    return text


def _count(name: str) -> Callable[[Group], str]:
    def text(group: Group) -> str:
        mean = group.mean(name)
        return NOTHING if mean is None else f"{mean:,.0f}"

    return text


def _memory(group: Group) -> str:
    peak = group.mean("peak_bytes")
    return NOTHING if peak is None else f"{peak / 1e9:.2f} GB"


def _slots(group: Group) -> str:
    decoder, encoder, given = (group.mean(name) for name in ("decoder_slots", "encoder_slots", "slots"))
    if decoder is None or encoder is None or given is None:
        return NOTHING
    return f"{decoder:.1f} / {encoder:.1f} of {given:.3g}"


COLUMNS = (
    Cost("images seen", _count("images")),
    Cost("training, images/s", _rate("images_per_second"), "images_per_second", max),
    Cost("evaluation, images/s", _rate("evaluation_images_per_second"), "evaluation_images_per_second", max),
    Cost("peak memory", _memory, "peak_bytes", min),
    Cost("parameters", _count("parameters")),
    Cost("slots used, decoder / encoder", _slots),
)


def write_comparison(
    folder: Path, comparison: Comparison, results: Mapping[Job, ScoredRun | Failure], missing: Sequence[Job] = ()
) -> str:
    """Write tables and curves of the runs so far; returns the Markdown."""
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


def rows_of(results: Mapping[Job, ScoredRun | Failure]) -> list[Row]:
    """A row for each model, in the order of the jobs."""
    rows = []
    for model in dict.fromkeys(job.model for job in results):
        found = [result for job, result in results.items() if job.model == model]
        runs = tuple(result for result in found if isinstance(result, ScoredRun))
        failures = tuple(result for result in found if isinstance(result, Failure))
        rows.append(Row(model, Group(model, runs) if runs else None, failures))
    return rows


def groups_of(rows: Sequence[Row]) -> list[Group]:
    return [row.group for row in rows if row.group is not None]


def score_rows(rows: Sequence[Row], names: Sequence[str] = SCORES) -> Iterator[list[Cell]]:
    """Model, seeds, steps and scores; the paper's row follows the last of its models."""
    groups = groups_of(rows)
    texts = {name: partial(score_text, name=name) for name in names}
    best = {
        name: _best(groups, name, max if TABLE[name].better == "higher" else min, text) for name, text in texts.items()
    }
    for number, row in enumerate(rows):
        group = row.group
        if group is None:
            yield [Cell(row.model), *_seeds(row), *[Cell(NOTHING)] * (1 + len(names))]
            continue
        scores = [Cell(score_text(group, name), group.title in best[name]) for name in names]
        yield [Cell(row.model), *_seeds(row), Cell(steps_text(group)), *scores]
        following = [later.group.paper for later in rows[number + 1 :] if later.group is not None]
        beside = group.paper is not None and any(name in group.paper.scores for name in names)
        if group.paper is not None and beside and group.paper not in following:
            yield [Cell(text) for text in paper_cells(group.paper, names)]


def cost_rows(rows: Sequence[Row]) -> Iterator[list[Cell]]:
    """Model and costs of its runs."""
    groups = groups_of(rows)
    best = {
        column.title: _best(groups, column.name, column.best, column.text)
        for column in COLUMNS
        if column.name and column.best
    }
    for row in rows:
        group = row.group
        if group is None:
            yield [Cell(row.model), *[Cell(NOTHING)] * len(COLUMNS)]
        else:
            cells = [Cell(column.text(group), group.title in best.get(column.title, ())) for column in COLUMNS]
            yield [Cell(row.model), *cells]


def notes(rows: Sequence[Row], comparison: Comparison, missing: Sequence[Job] = ()) -> Iterator[str]:
    """Sentences on how to read the tables."""
    size = "the batch size of its preset" if comparison.batch_size is None else f"batches of {comparison.batch_size}"
    threads = plural(comparison.threads, "thread")
    yield f"Every run had {_time(comparison)} of training on {threads}, with {size}, validation included."
    yield "Bold marks the best of our runs."
    if any(group.paper for group in groups_of(rows)):
        yield "The paper's rows are of full trainings on the published images; bold leaves them out."
    yield from map(_by_paper_masks, filter(_has_paper_masks, groups_of(rows)))
    for row in rows:
        for failure in row.failures:
            reason = failure.reason
            short = reason if len(reason) <= LONGEST_REASON else f"{reason[: LONGEST_REASON - 1]}…"
            yield f"{row.model}, seed {failure.seed}, failed: {short}"
    if missing:
        yield f"Not run yet: {'; '.join(job.title for job in missing)}."


def markdown_text(rows: Sequence[Row], comparison: Comparison, missing: Sequence[Job] = ()) -> str:
    names = shown(groups_of(rows)) if groups_of(rows) else SCORES
    scores = [["", "seeds", "steps", *map(title, names)], *map(_markdown, score_rows(rows, names))]
    spent = [["", *(column.title for column in COLUMNS)], *map(_markdown, cost_rows(rows))]
    done = max((len(row.failures) + len(row.group.runs if row.group else ()) for row in rows), default=1)
    seeds = max([done, *(job.seed + 1 for job in missing)])
    models = dict.fromkeys([*(row.model for row in rows), *(job.model for job in missing)])
    command = comparison.command(list(models), seeds)
    parts = [
        f"# {_time(comparison)} each on {comparison.data_set}\n",
        "\n".join(f"- {note}" for note in notes_on(groups_of(rows))) + "\n",
        markdown_table(scores) + "\n",
        *baseline_table(groups_of(rows)),
        markdown_table(spent) + "\n",
        "\n".join(f"- {note}" for note in [*notes(rows, comparison, missing), f"`{command}`"]) + "\n",
    ]
    return "\n".join(parts)


def comparison_csv(rows: Sequence[Row]) -> str:
    """A line for each score and cost of each model in the format of `coca report`; failed models have none."""
    return csv_text(groups_of(rows), SCORES + OVERLAPS + tuple(PAPER_MASKS) + SLOTS + COSTS)


def latex_text(rows: Sequence[Row], comparison: Comparison, missing: Sequence[Job] = ()) -> str:
    """Scores in the paper's layout, then costs; it needs `booktabs`."""
    overlaps = shown(groups_of(rows))[: -len(SCORES)] if groups_of(rows) else []
    caption = " ".join([*notes_on(groups_of(rows)), *notes(rows, comparison, missing)]).replace("`", "")
    lines = [
        *LATEX_OPENING,
        rf"  \caption{{{escape(caption)}}}",
        rf"  \begin{{tabular}}{{l{'r' * (2 + len(SCORES))}}}",
        r"    \toprule",
        *LATEX_HEADER,
        *_latex(score_rows(rows)),
        r"  \end{tabular}",
        *(latex_overlaps(overlaps, _latex(score_rows(rows, overlaps))[1:-1]) if overlaps else []),
        r"  \par\medskip",
        rf"  \begin{{tabular}}{{l{'r' * len(COLUMNS)}}}",
        r"    \toprule",
        f"    Model & {' & '.join(escape(column.title) for column in COLUMNS)} \\\\",
        *_latex(cost_rows(rows)),
        r"  \end{tabular}",
        r"\end{table*}",
    ]
    return "\n".join(lines) + "\n"


def _has_paper_masks(group: Group) -> bool:
    return any(group.mean(name) is not None for name in PAPER_MASKS)


def _by_paper_masks(group: Group) -> str:
    """Encoder scores with the normalisation of the paper's row."""
    scores = ", ".join(
        f"{title(usual).removeprefix('encoder ')} {score_text(group, name)}" for name, usual in PAPER_MASKS.items()
    )
    return f"{group.title} with encoder masks as the paper normalises them: {scores}."


def _best(groups: Sequence[Group], name: str, best: Best, text: Callable[[Group], str]) -> set[str]:
    """Titles of the groups with the best mean; equal as printed is a tie."""
    known = [group for group in groups if group.mean(name) is not None]
    if not known:
        return set()
    printed = {group.title: text(group).partition(" ±")[0] for group in known}
    first = best(known, key=lambda group: group.mean(name))
    return {title for title in printed if printed[title] == printed[first.title]}


def _time(comparison: Comparison) -> str:
    return plural(comparison.minutes, "minute")


def _seeds(row: Row) -> list[Cell]:
    done = 0 if row.group is None else len(row.group.runs)
    if not done:
        return [Cell("failed")]
    return [Cell(f"{done} of {done + len(row.failures)}" if row.failures else str(done))]


def _markdown(row: Sequence[Cell]) -> list[str]:
    return [f"**{cell.text}**" if cell.best else cell.text for cell in row]


def _latex(rows: Iterator[list[Cell]]) -> list[str]:
    written = [[rf"\textbf{{{escape(cell.text)}}}" if cell.best else escape(cell.text) for cell in row] for row in rows]
    return [r"    \midrule", *(f"    {' & '.join(row)} \\\\" for row in written), r"    \bottomrule"]
