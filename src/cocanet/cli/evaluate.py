"""`coca evaluate` and `coca report`."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from cocanet.cli.arguments import Weights
from cocanet.evaluate.overrides import EvaluationSettings
from cocanet.words import plural

if TYPE_CHECKING:
    from rich.table import Table

    from cocanet.evaluate.evaluation import Evaluation, FullEvaluation

BARE_WEIGHTS_OUT = Path("evaluation")

LEAST_WIDTH, MOST_WIDTH = len("0.000"), len("0.00 ± 0.00")
"""Of a column of scores: on a narrow terminal long names of baselines wrap, scores do not."""


@dataclass(frozen=True)
class Evaluate:
    """Score a trained model by the paper's protocol: nine numbers on its test split."""

    weights: Weights
    settings: Annotated[EvaluationSettings, tyro.conf.arg(name="")] = field(default_factory=EvaluationSettings)
    json: str | None = None
    """Write the result to this file too; - prints the result and nothing else."""
    out: Path | None = None
    """Folder for the files. If left out: the run's folder, a folder in it for other data, or evaluation/ for a weights
    file."""

    def run(self) -> None:
        run_evaluation(self.weights, self.settings, out=self.out, json_file=self.json)


@dataclass(frozen=True)
class Report:
    """Compare runs: mean and deviation over seeds, beside the paper's values, as tables and a plot."""

    runs: Annotated[
        tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN…", help_behavior_hint="(required)")
    ]
    """Run folders, or folders of run folders."""
    out: Path = Path("report")
    """Folder for the tables and the plot."""
    no_evaluate: bool = False
    """Show the last validation scores of runs that have not been evaluated, instead of evaluating them."""

    def run(self) -> None:
        from cocanet.cli.progress import ConsoleProgress
        from cocanet.evaluate.report import write_report

        write_report(self.runs, self.out, ConsoleProgress(), evaluate=not self.no_evaluate)


def run_evaluation(
    source: str | Path, settings: EvaluationSettings, *, out: Path | None = None, json_file: str | None = None
) -> FullEvaluation:
    """Score a model, print the table and write the files; with "-", print the JSON and nothing else."""
    from cocanet.cli.progress import ConsoleProgress
    from cocanet.evaluate.evaluation import FILE, PER_IMAGE, WORST, write_evaluation
    from cocanet.evaluate.trained import evaluate_trained
    from cocanet.files import check_folder_writable, write_atomically
    from cocanet.io.run_folder import own_folder
    from cocanet.paper_scores import notes_beside

    folder = out or own_folder(source) or BARE_WEIGHTS_OUT
    to_stdout = json_file == "-"
    targets = [folder] if json_file is None or to_stdout else [folder, Path(json_file).absolute().parent]
    for target in targets:
        check_folder_writable(target)
    # Messages must not mix with the JSON.
    with contextlib.redirect_stdout(sys.stderr) if to_stdout else contextlib.nullcontext():
        progress = ConsoleProgress()
        evaluation = evaluate_trained(source, settings, progress)
        if out is None and evaluation.data.elsewhere:
            # The result on the run's own test split stays.
            folder = folder / f"on-{evaluation.data.name}"
        write_evaluation(evaluation, folder)
        if evaluation.baselines:
            for names in filter(None, (evaluation.mask_scores, evaluation.discovery_scores)):
                progress.console.print(baseline_table(evaluation, names))
        progress.console.print(score_table(evaluation))
        if evaluation.paper is not None:
            for note in notes_beside(evaluation.paper, evaluation.data.name):
                progress.say(note)
        progress.say(_facts(evaluation))
        progress.say(f"Wrote {FILE}, {PER_IMAGE} and {WORST} to {folder}")
    text = evaluation.to_json()
    if to_stdout:
        print(text, end="")
    elif json_file is not None:
        Path(json_file).absolute().parent.mkdir(parents=True, exist_ok=True)
        write_atomically(Path(json_file), [text.encode()])
    return evaluation


def score_table(evaluation: Evaluation) -> Table:
    """The scores, beside the paper's where it has any; those in the table of baselines are left out."""
    from rich.table import Table

    from cocanet.metrics.table import text, title
    from cocanet.paper_scores import TITLES

    paper = evaluation.paper
    trained = "" if evaluation.step is None else f", trained for {plural(evaluation.step, 'step')}"
    table = Table(title=f"{evaluation.preset}{trained}, on {evaluation.data.name}")
    table.add_column("score")
    table.add_column("this model", justify="right")
    if paper is not None:
        table.add_column(f"paper's {TITLES[paper.model]}, {plural(paper.seeds, 'seed')}", justify="right")
    of_either = (*evaluation.mask_scores, *evaluation.discovery_scores)
    of_masks = {f"{side}_{name}" for side in ("encoder", "decoder") for name in of_either}
    in_the_other = of_masks if evaluation.baselines else set()
    for name in (name for name in evaluation.shown if name not in in_the_other):
        beside = [] if paper is None else [str(paper.scores[name]) if name in paper.scores else "–"]
        refined = ", refined" * (evaluation.overrides.refined and name.startswith("encoder_"))
        table.add_row(title(name) + refined, text(name, evaluation.scores[name]), *beside)
    return table


def baseline_table(evaluation: Evaluation, names: Sequence[str]) -> Table:
    """Some scores of the model's masks, and the paper's, above those of the non-learned baselines."""
    from rich.table import Table

    from cocanet.metrics.table import text, title

    table = Table(title=f"non-learned baselines, on the same {plural(evaluation.images, 'image')}")
    table.add_column("masks")
    for name in names:
        table.add_column(title(name), justify="right", min_width=LEAST_WIDTH, max_width=MOST_WIDTH)
    sides = ("encoder",) if evaluation.decoder_repeats_encoder else ("encoder", "decoder")
    for side in sides:
        refined = ", refined" * (evaluation.overrides.refined and side == "encoder")
        values = (text(name, evaluation.scores[f"{side}_{name}"]) for name in names)
        table.add_row(f"this model's {side}{refined}", *values)
    if evaluation.paper is not None:
        for side in sides:
            published = (str(evaluation.paper.scores.get(f"{side}_{name}", "–")) for name in names)
            table.add_row(f"paper's {side}", *published)
    table.add_section()
    for baseline in evaluation.baselines:
        table.add_row(baseline.title, *(text(name, baseline.scores[name]) for name in names))
    return table


def _facts(evaluation: Evaluation) -> str:
    """The provenance of the scores, line by line."""
    data, provenance, slots, speed = evaluation.data, evaluation.provenance, evaluation.slots, evaluation.speed
    facts = {"tested on": provenance.images + ("" if data.has_labels else ", without labels")}
    if data.source == "generated" and evaluation.paper is not None:
        facts["the paper"] = "was tested on the published images"
    if evaluation.images_without_foreground:
        by_paper = evaluation.overrides.paper_empty_foreground
        counted = "counted as in the paper's code" if by_paper else "left out of the -FG scores"
        facts["without foreground"] = f"{evaluation.images_without_foreground:,}, {counted}"
    if data.has_labels and evaluation.images_without_labels:
        facts["without labels"] = f"{evaluation.images_without_labels:,}, in the MSE and the slots only"
    used = f"{slots['decoder_slots']:.2f} in decoder masks, {slots['encoder_slots']:.2f} in encoder masks"
    facts["slots in use"] = f"{used}, of {slots['slots']:.2f}"
    facts["trained by"] = provenance.training
    facts["decoder"] = provenance.decoder
    if evaluation.decoder_repeats_encoder:
        facts["decoder masks"] = "score exactly as the encoder masks, and are not shown"
    facts["scored"] = provenance.masks
    facts["images per second"] = f"{speed.images_per_second:.1f}, the model alone on {speed.device}"
    return "\n".join(f"{name:<20}{fact}" for name, fact in facts.items())
