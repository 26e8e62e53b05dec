"""What `coca evaluate` does."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from cocanet.data.loader import Batch
from cocanet.evaluation.files import PER_IMAGE, RESULT, WORST, result_text, write_evaluation
from cocanet.evaluation.protocol import SCORES
from cocanet.evaluation.trained import Evaluation, EvaluationSettings, Watch, evaluate_trained
from cocanet.files import check_folder_writable, write_atomically
from cocanet.paper_scores import SCORE_TITLES, TITLES
from cocanet.runs.folder import own_folder
from cocanet.words import plural

BARE_WEIGHTS_OUT = Path("evaluation")


def run_evaluation(
    source: str | Path, settings: EvaluationSettings, *, out: Path | None = None, json_file: str | None = None
) -> Evaluation:
    """Score a run or a weights file, print the table and write the files; "-" prints the JSON and nothing else."""
    folder = out or own_folder(source) or BARE_WEIGHTS_OUT
    to_stdout = json_file == "-"
    targets = [folder] if json_file is None or to_stdout else [folder, Path(json_file).absolute().parent]
    for target in targets:
        check_folder_writable(target)
    # What is said on the way, by whomever, must not get between the braces.
    with contextlib.redirect_stdout(sys.stderr) if to_stdout else contextlib.nullcontext():
        console = Console(highlight=False, markup=False, soft_wrap=True)
        evaluation = evaluate_trained(source, settings, say=console.print, watch=show_progress(console))
        write_evaluation(evaluation, folder)
        console.print(score_table(evaluation))
        console.print(_facts(evaluation))
        console.print(f"Wrote {RESULT}, {PER_IMAGE} and {WORST} to {folder}")
    if to_stdout:
        print(result_text(evaluation), end="")
    elif json_file is not None:
        Path(json_file).absolute().parent.mkdir(parents=True, exist_ok=True)
        write_atomically(Path(json_file), [result_text(evaluation).encode()])
    return evaluation


def score_table(evaluation: Evaluation) -> Table:
    """Our scores, beside the paper's where it has any for this data."""
    preset, step = evaluation.trained.preset, evaluation.trained.step
    trained = "" if step is None else f", trained for {plural(step, 'step')}"
    table = Table(title=f"{preset.name}{trained}, on {evaluation.data.name}")
    table.add_column("score")
    table.add_column("this model", justify="right")
    paper = evaluation.paper
    if paper is not None:
        table.add_column(f"paper's {TITLES[paper.model]}, {plural(paper.seeds, 'seed')}", justify="right")
    scores = evaluation.to_plain()["scores"]
    for name in SCORES:
        ours = "–" if scores[name] is None else f"{scores[name]:.{4 if name == 'mse' else 3}f}"
        table.add_row(SCORE_TITLES[name], ours, *([] if paper is None else [str(paper.scores[name])]))
    return table


def _facts(evaluation: Evaluation) -> str:
    scored, images = evaluation.scored, evaluation.data.images
    facts = {"images": f"{len(images):,}{'' if images.has_labels else ', without labels'}"}
    empty, means = scored.images_without_foreground, scored.means
    if empty:
        counted = "counted as in the paper's code" if evaluation.settings.compat else "left out of the -FG scores"
        facts["without foreground"] = f"{empty:,}, {counted}"
    if images.has_labels and scored.images_without_labels:
        facts["without labels"] = f"{scored.images_without_labels:,}, in the MSE and the slots only"
    used = f"{means['decoder_slots']:.2f} in decoder masks, {means['encoder_slots']:.2f} in encoder masks"
    facts["slots in use"] = f"{used}, of {means['slots']:.2f}"
    facts["images per second"] = f"{scored.images_per_second:.1f}, the model alone on {evaluation.settings.device}"
    facts["sha256"] = evaluation.sha256
    return "\n".join(f"{name:<20}{fact}" for name, fact in facts.items())


def show_progress(console: Console) -> Watch:
    """A bar that counts batches, and leaves nothing behind."""

    def watch(batches: Iterable[Batch], count: int) -> Iterator[Batch]:
        columns = (TextColumn("batch {task.completed}/{task.total}"), BarColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True) as progress:
            yield from progress.track(batches, total=count)

    return watch
