"""A comparison as Markdown, CSV and LaTeX: one table of scores, the paper's below ours, and one of what they cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from cocanet.compare.rows import COSTS, PAPER_MASKS, Row, groups_of
from cocanet.compare.settings import Comparison, Job
from cocanet.metrics.table import OVERLAPS, SCORES, SLOTS, TABLE, title
from cocanet.report.runs import Group
from cocanet.report.tables import (
    LATEX_HEADER,
    LATEX_OPENING,
    csv_text,
    escape,
    latex_overlaps,
    markdown_table,
    paper_cells,
    score_text,
    shown,
    steps_text,
    tested_on,
    yardstick_text,
)
from cocanet.words import plural

LONGEST_REASON = 160
NOTHING = "–"


class Cell(NamedTuple):
    text: str
    best: bool = False


Best = Callable[..., Group]
"""`max` or `min`."""


class Cost(NamedTuple):
    """A column of the second table: of which numbers, how they are written, and which of them is the best."""

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


def score_rows(rows: Sequence[Row], names: Sequence[str] = SCORES) -> Iterator[list[Cell]]:
    """Model, seeds, steps and scores; the paper's follow the last of the models that it belongs to."""
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
    """Model and what its runs cost."""
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
    """What one must know to read the tables, a sentence or two each."""
    size = "the batch size of its preset" if comparison.batch_size is None else f"batches of {comparison.batch_size}"
    threads = plural(comparison.threads, "thread")
    yield f"Every run had {_time(comparison)} of training on {threads}, with {size}, validation included."
    yield "Bold is the best of our runs."
    if any(group.paper for group in groups_of(rows)):
        yield "The paper's rows are on the published images and have had their full training; bold leaves them out."
    yield from tested_on(groups_of(rows))
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
        markdown_table(scores) + "\n",
        *yardstick_text(groups_of(rows)),
        markdown_table(spent) + "\n",
        "\n".join(f"- {note}" for note in [*notes(rows, comparison, missing), f"`{command}`"]) + "\n",
    ]
    return "\n".join(parts)


def comparison_csv(rows: Sequence[Row]) -> str:
    """A line for each score and cost of each model, as `coca report` writes it; models that failed have none."""
    return csv_text(groups_of(rows), SCORES + OVERLAPS + tuple(PAPER_MASKS) + SLOTS + COSTS)


def latex_text(rows: Sequence[Row], comparison: Comparison, missing: Sequence[Job] = ()) -> str:
    """The paper's layout, and the costs below it; it needs `booktabs`."""
    overlaps = shown(groups_of(rows))[: -len(SCORES)] if groups_of(rows) else []
    lines = [
        *LATEX_OPENING,
        rf"  \caption{{{escape(' '.join(notes(rows, comparison, missing)).replace('`', ''))}}}",
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
    """Encoder scores of the other normalisation, which is what the paper's row of this model has."""
    scores = ", ".join(
        f"{title(usual).removeprefix('encoder ')} {score_text(group, name)}" for name, usual in PAPER_MASKS.items()
    )
    return f"{group.title} with encoder masks as the paper normalises them: {scores}."


def _best(groups: Sequence[Group], name: str, best: Best, text: Callable[[Group], str]) -> set[str]:
    """Titles of the groups with the best mean; those that are written alike share it."""
    known = [group for group in groups if group.mean(name) is not None]
    if not known:
        return set()
    written = {group.title: text(group).partition(" ±")[0] for group in known}
    first = best(known, key=lambda group: group.mean(name))
    return {title for title in written if written[title] == written[first.title]}


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
