"""`coca evaluate`."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from cocanet.cli.weights_argument import Weights
from cocanet.evaluation.settings import EvaluationSettings
from cocanet.words import plural

if TYPE_CHECKING:
    from rich.table import Table

    from cocanet.evaluation.result import Result
    from cocanet.evaluation.trained import Evaluation

BARE_WEIGHTS_OUT = Path("evaluation")


@dataclass(frozen=True)
class Evaluate:
    """Score a trained model by the paper's protocol: nine numbers on its test split."""

    weights: Weights
    settings: Annotated[EvaluationSettings, tyro.conf.arg(name="")] = field(default_factory=EvaluationSettings)
    json: str | None = None
    """Write the result to this file too; - prints it, and nothing else."""
    out: Path | None = None
    """Folder for the files. If left out, the run's own, on other data a folder in it, or evaluation/ for a weights
    file."""

    def run(self) -> None:
        run_evaluation(self.weights, self.settings, out=self.out, json_file=self.json)


def run_evaluation(
    source: str | Path, settings: EvaluationSettings, *, out: Path | None = None, json_file: str | None = None
) -> Evaluation:
    """Score a model, print the table and write the files; "-" prints the JSON and nothing else."""
    from cocanet.cli.console import ConsoleWatcher, plain_console
    from cocanet.evaluation.files import PER_IMAGE, WORST, write_evaluation
    from cocanet.evaluation.result import FILE
    from cocanet.evaluation.trained import evaluate_trained
    from cocanet.files import check_folder_writable, write_atomically
    from cocanet.paper_scores import notes_beside
    from cocanet.runs.folder import own_folder

    folder = out or own_folder(source) or BARE_WEIGHTS_OUT
    to_stdout = json_file == "-"
    targets = [folder] if json_file is None or to_stdout else [folder, Path(json_file).absolute().parent]
    for target in targets:
        check_folder_writable(target)
    # What is said on the way, by whomever, must not get between the braces.
    with contextlib.redirect_stdout(sys.stderr) if to_stdout else contextlib.nullcontext():
        console = plain_console()
        evaluation = evaluate_trained(source, settings, ConsoleWatcher(console))
        if out is None and evaluation.elsewhere:
            # A run's own result stays what it is.
            folder = folder / f"on-{evaluation.data.name}"
        write_evaluation(evaluation, folder)
        console.print(score_table(evaluation))
        if evaluation.paper is not None:
            for note in notes_beside(evaluation.paper, evaluation.data.name):
                console.print(note)
        if evaluation.judged:
            console.print(yardstick_table(evaluation.result))
        console.print(_facts(evaluation))
        console.print(f"Wrote {FILE}, {PER_IMAGE} and {WORST} to {folder}")
    text = evaluation.result.to_json()
    if to_stdout:
        print(text, end="")
    elif json_file is not None:
        Path(json_file).absolute().parent.mkdir(parents=True, exist_ok=True)
        write_atomically(Path(json_file), [text.encode()])
    return evaluation


def score_table(evaluation: Evaluation) -> Table:
    """Our scores, beside the paper's where it has any for this data."""
    from rich.table import Table

    from cocanet.metrics.table import text, title
    from cocanet.paper_scores import TITLES

    result, paper = evaluation.result, evaluation.paper
    trained = "" if result.step is None else f", trained for {plural(result.step, 'step')}"
    table = Table(title=f"{result.preset}{trained}, on {result.data.name}")
    table.add_column("score")
    table.add_column("this model", justify="right")
    if paper is not None:
        table.add_column(f"paper's {TITLES[paper.model]}, {plural(paper.seeds, 'seed')}", justify="right")
    for name in result.shown:
        beside = [] if paper is None else [str(paper.scores[name]) if name in paper.scores else "–"]
        table.add_row(title(name), text(name, result.scores[name]), *beside)
    return table


def yardstick_table(result: Result) -> Table:
    """What nobody trained, below what was."""
    from rich.table import Table

    from cocanet.metrics.table import text, title

    names = result.told_by
    table = Table(title=f"without training, on the same {plural(result.images, 'image')}")
    table.add_column("masks", no_wrap=True)
    for name in names:
        table.add_column(title(name), justify="right")
    for side in ("encoder", "decoder"):
        table.add_row(f"this model's {side}", *(text(name, result.scores[f"{side}_{name}"]) for name in names))
    table.add_section()
    for way in result.yardsticks:
        table.add_row(way.title, *(text(name, way.scores[name]) for name in names))
    return table


def _facts(evaluation: Evaluation) -> str:
    result, scored = evaluation.result, evaluation.scored
    data, means = result.data, scored.means
    kind = "generated scenes" if data.generated else "images"
    facts = {kind: f"{result.images:,}{'' if data.has_labels else ', without labels'}"}
    if data.generated and evaluation.paper is not None:
        facts["the paper's"] = "scores are of the published images"
    if scored.images_without_foreground:
        counted = "counted as in the paper's code" if result.settings.compat else "left out of the -FG scores"
        facts["without foreground"] = f"{scored.images_without_foreground:,}, {counted}"
    if data.has_labels and scored.images_without_labels:
        facts["without labels"] = f"{scored.images_without_labels:,}, in the MSE and the slots only"
    used = f"{means['decoder_slots']:.2f} in decoder masks, {means['encoder_slots']:.2f} in encoder masks"
    facts["slots in use"] = f"{used}, of {means['slots']:.2f}"
    facts["trained by"] = result.provenance.losses
    facts["decoder's masks"] = result.provenance.decoder_masks
    facts["at evaluation"] = result.provenance.at_evaluation
    facts["images per second"] = f"{scored.images_per_second:.1f}, the model alone on {result.settings.device}"
    facts["sha256"] = data.sha256
    return "\n".join(f"{name:<20}{fact}" for name, fact in facts.items())
