"""All commands, and the parser that chooses among them."""

from __future__ import annotations

from typing import Annotated, Any

import tyro

from cocanet.cli import parsing, train
from cocanet.cli.compare import Compare
from cocanet.cli.data import DATA_COMMANDS, Data, Import, Scenes
from cocanet.cli.demo import Demo
from cocanet.cli.doctor import Doctor
from cocanet.cli.evaluate import Evaluate, Report
from cocanet.cli.explore import Explore
from cocanet.cli.export import ExportModel
from cocanet.cli.figure import DrawFigure
from cocanet.cli.segment import Segment
from cocanet.words import unknown

Command = (
    Annotated[Demo, tyro.conf.subcommand("demo")]
    | Annotated[train.Train, tyro.conf.subcommand("train", default=train.TETROMINOES, description=train.ABOUT)]
    | Annotated[Evaluate, tyro.conf.subcommand("evaluate")]
    | Annotated[Report, tyro.conf.subcommand("report")]
    | Annotated[Compare, tyro.conf.subcommand("compare")]
    | Annotated[Segment, tyro.conf.subcommand("segment")]
    | Annotated[Explore, tyro.conf.subcommand("explore")]
    | Annotated[ExportModel, tyro.conf.subcommand("export")]
    | Annotated[DrawFigure, tyro.conf.subcommand("figure")]
    | Annotated[Scenes, tyro.conf.subcommand("scenes")]
    | Annotated[Import, tyro.conf.subcommand("import")]
    | Annotated[Data, tyro.conf.subcommand("data")]
    | Annotated[Doctor, tyro.conf.subcommand("doctor")]
)

NAMES = (
    "demo",
    "train",
    "evaluate",
    "report",
    "compare",
    "segment",
    "explore",
    "export",
    "figure",
    "scenes",
    "import",
    "data",
    "doctor",
)


def parse(arguments: list[str]) -> Any:
    """The command that the arguments describe."""
    first, *rest = arguments or [""]
    if first == "train":
        return train.parse(rest)  # its flags depend on the preset
    if first and not first.startswith("-") and first not in NAMES:
        raise ValueError(unknown("command", first, NAMES))
    if first == "data" and rest[:1] and not rest[0].startswith("-") and rest[0] not in DATA_COMMANDS:
        raise ValueError(unknown("command", f"data {rest[0]}", [f"data {name}" for name in DATA_COMMANDS]))
    about = "Discover objects in images without labels, with COCA-Net."
    return parsing.parse(Command, arguments, prog="coca", description=about)
