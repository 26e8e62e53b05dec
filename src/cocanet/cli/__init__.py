"""The command `coca`: the only place that parses arguments.

A command is a dataclass whose fields are its flags and whose `run` does the work; it imports what it needs only then,
so that `coca --help` answers at once.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from cocanet.cli.data import Data, Import, Scenes
from cocanet.runtime import spin_briefly


@dataclass(frozen=True)
class Demo:
    """Find the objects of fresh scenes with the weights that come with the package: scores and pictures."""

    names: tyro.conf.Positional[tuple[str, ...]] = ()
    """Weights to show (tetrominoes, multi-dsprites, objects-room, shapestacks); all if left out."""
    out: Path = Path("demo")
    """Folder for the scenes and the pictures."""

    def run(self) -> None:
        from cocanet.demo import run_demo

        run_demo(self.out, self.names)


@dataclass(frozen=True)
class Train:
    """Train a model on a data set: `coca train PRESET --help` lists what can be set."""


@dataclass(frozen=True)
class Evaluate:
    """Score a trained model by the paper's protocol: nine numbers on its test split."""

    run_or_weights: tyro.conf.Positional[Path]
    """A run folder, a weights file, or a name of weights that come with the package (tetrominoes, multi-dsprites,
    objects-room, shapestacks)."""
    data: Path | None = None
    """A store to score it on; what the run was trained for if left out."""
    json: str | None = None
    """Write the result to this file too; - prints it, and nothing else."""
    checkpoint: Literal["last", "best"] = "last"
    """Which of the run's weights."""
    slots: int | None = None
    """Fewer slots than were trained; with --dynamic the most a scene may have."""
    dynamic: tyro.conf.FlagCreatePairsOff[bool] = False
    """As many slots as it takes to explain the scene."""
    feedback: int | None = None
    """Rounds of top-down feedback, 0 for none; as the model was trained if left out."""
    compat: tyro.conf.FlagCreatePairsOff[bool] = False
    """Count images without foreground as the paper's code does."""
    paper_masks: tyro.conf.FlagCreatePairsOff[bool] = False
    """Encoder masks of Slot Attention, INV-SA and BO-QSA as the paper normalises them."""
    batch_size: int = 16
    """Images at a time."""
    device: str = "cpu"
    """What to run on: cpu, cuda, cuda:1, mps."""
    out: Path | None = None
    """Folder for the files; the run's own if left out, or evaluation/ for a weights file."""

    def run(self) -> None:
        from cocanet.evaluation.command import run_evaluation
        from cocanet.evaluation.trained import EvaluationSettings

        settings = EvaluationSettings(
            checkpoint=self.checkpoint,
            data=self.data,
            slots=self.slots,
            dynamic=self.dynamic,
            feedback=self.feedback,
            compat=self.compat,
            paper_masks=self.paper_masks,
            batch_size=self.batch_size,
            device=self.device,
        )
        run_evaluation(self.run_or_weights, settings, out=self.out, json_file=self.json)


@dataclass(frozen=True)
class Report:
    """Compare runs: mean and deviation over seeds, beside the paper's values, as tables and a plot."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run folders, or folders of run folders."""
    out: Path = Path("report")
    """Folder for the tables and the plot."""
    no_evaluate: tyro.conf.FlagCreatePairsOff[bool] = False
    """Show the last validation scores of runs that have not been evaluated, instead of evaluating them."""

    def run(self) -> None:
        from cocanet.report.command import run_report

        run_report(self.runs, out=self.out, evaluate=not self.no_evaluate)


@dataclass(frozen=True)
class DrawFigure:
    """Draw what a trained model finds in images."""

    kind: tyro.conf.Positional[Literal["grid", "hierarchy", "compactness", "slots"]]
    """grid: image, reconstruction, truth and masks; hierarchy: how one image's objects were put together;
    compactness: of every pixel's masks; slots: each slot's own picture."""
    weights: tyro.conf.Positional[Path]
    """A run folder, a weights file, or a name of weights that come with the package (tetrominoes, multi-dsprites,
    objects-room, shapestacks)."""
    data: Path | None = None
    """Folder of a store; scenes of the model's own kind if left out."""
    count: int | None = None
    """How many images; if left out 6, or 3 for slots, or the one that a hierarchy shows."""
    first: int = 0
    """The first of them."""
    out: Path | None = None
    """The picture to write, .png, .pdf or .svg; KIND.png if left out."""

    def run(self) -> None:
        from cocanet.figures.command import save_figure

        save_figure(self.kind, self.weights, data=self.data, count=self.count, first=self.first, out=self.out)


@dataclass(frozen=True)
class Compare:
    """Train models for the same time on the same images, and compare them: scores, cost and curves in one table."""

    dataset: tyro.conf.Positional[str]
    """tetrominoes, multi-dsprites, shapestacks, objects-room, clevr6 or clevrtex."""
    minutes: float
    """Of training, for each run."""
    models: tuple[str, ...] = ("coca-net", "coca-net-cpu", "slot-attention", "inv-sa", "bo-qsa", "genesis-v2")
    """coca-net is the paper's preset, coca-net-cpu the quick recipe; coca-net-ras, coca-net-dyna and the rivals too."""
    seeds: int = 1
    """Runs of each model, from seed 0 on."""
    out: Path | None = None
    """Folder for the runs and the tables; comparison/DATASET if left out. The same command goes on with what it has."""
    batch_size: int | None = None
    """One for all models; each preset's own if left out."""
    data: Path | None = None
    """A store of images, or a folder with the stores train, validation and test; without it, scenes are made."""

    def run(self) -> None:
        from cocanet.compare.command import run_compare

        sys.exit(
            run_compare(
                self.dataset,
                models=self.models,
                minutes=self.minutes,
                seeds=self.seeds,
                out=self.out,
                batch_size=self.batch_size,
                data=self.data,
            )
        )


@dataclass(frozen=True)
class Segment:
    """Find the objects in your own images: label maps, overlays, COCO annotations, slot vectors."""

    weights: tyro.conf.Positional[str]
    """Weights that come with the package (tetrominoes, multi-dsprites, objects-room, shapestacks), a weights
    file, a run folder or a save_pretrained folder."""
    paths: tyro.conf.Positional[tuple[str, ...]]
    """Images, folders of them, also nested, or patterns such as 'photos/*.jpg'."""
    out: Path
    """Folder for the results."""
    masks: Literal["encoder", "decoder"] = "encoder"
    """Whose masks; the encoder's are faster and usually sharper."""
    level: int | None = None
    """A level of the hierarchy, 1 for the smallest parts; the objects if left out."""
    dynamic: tyro.conf.FlagCreatePairsOff[bool] = False
    """As many slots as it takes to explain each image."""
    slots: int | None = None
    """So many slots, with --dynamic at most so many; those of training if left out."""
    feedback: int | None = None
    """Rounds of top-down feedback, 0 for none; as the model was trained if left out."""
    min_area: int = 0
    """Give segments of fewer pixels to their neighbours."""
    fit: Literal["stretch", "pad", "crop"] = "stretch"
    """How an image of another shape is brought to the model's."""
    keep_background: tyro.conf.FlagCreatePairsOff[bool] = False
    """Annotate the background too: the segment with most of the image's border."""
    sheet: int = 24
    """Images on the contact sheet, 0 for none."""
    checkpoint: Literal["last", "best"] = "last"
    """Of a run folder."""
    device: str = "cpu"
    """What to run on: cpu, cuda, cuda:1, mps."""
    batch: int = 16
    """Images the model takes at a time."""
    overwrite: tyro.conf.FlagCreatePairsOff[bool] = False
    """Write into a folder that is not empty."""

    def run(self) -> None:
        from cocanet.segment.command import Plan, segment_files
        from cocanet.segment.segmenter import Settings

        settings = Settings(
            masks=self.masks,
            level=self.level,
            dynamic=self.dynamic or None,
            slots=self.slots,
            min_area=self.min_area,
            fit=self.fit,
            feedback=self.feedback,
        )
        plan = Plan(self.out, settings, self.batch, self.sheet, self.keep_background)
        sys.exit(
            segment_files(
                self.weights,
                list(self.paths),
                plan,
                device=self.device,
                checkpoint=self.checkpoint,
                overwrite=self.overwrite,
            )
        )


Command = (
    Annotated[Demo, tyro.conf.subcommand("demo")]
    | Annotated[Train, tyro.conf.subcommand("train")]
    | Annotated[Evaluate, tyro.conf.subcommand("evaluate")]
    | Annotated[Report, tyro.conf.subcommand("report")]
    | Annotated[Compare, tyro.conf.subcommand("compare")]
    | Annotated[Segment, tyro.conf.subcommand("segment")]
    | Annotated[DrawFigure, tyro.conf.subcommand("figure")]
    | Annotated[Scenes, tyro.conf.subcommand("scenes")]
    | Annotated[Import, tyro.conf.subcommand("import")]
    | Annotated[Data, tyro.conf.subcommand("data")]
)


def main(arguments: list[str] | None = None) -> None:
    """Parse and run one command; a user's mistake ends with one line and exit code 2."""
    given = sys.argv[1:] if arguments is None else arguments
    spin_briefly()
    try:
        _run(given)
    except BrokenPipeError:
        # Whoever read the output has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (ValueError, OSError) as error:
        print(f"coca: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt as stop:
        print(f"coca: {stop or 'interrupted'}", file=sys.stderr)
        sys.exit(128 + getattr(stop, "signal", signal.SIGINT))


def _run(arguments: list[str]) -> None:
    if arguments[:1] == ["train"]:
        # Its flags are a preset's fields; to know them takes torch, which the other commands need not wait for.
        from cocanet.cli.train import parse

        parse(arguments[1:]).carry_out()
        return
    about = "Discover objects in images without labels, with COCA-Net."
    command: Any = tyro.cli(Command, prog="coca", description=about, args=arguments)  # type: ignore[arg-type]
    command.run()
