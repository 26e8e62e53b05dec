"""The command `coca`: the only place that parses arguments and prints; one file a command.

A command is a dataclass whose fields are its flags and whose `run` does the work; it imports what it needs only then,
so that `coca --help` answers at once.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from importlib.metadata import version
from typing import Annotated, Any

import tyro

from cocanet.cli.compare import Compare
from cocanet.cli.data import Data
from cocanet.cli.demo import Demo
from cocanet.cli.doctor import Doctor
from cocanet.cli.evaluate import Evaluate
from cocanet.cli.explore import Explore
from cocanet.cli.export import ExportModel
from cocanet.cli.figure import DrawFigure
from cocanet.cli.imports import Import
from cocanet.cli.optional import registry
from cocanet.cli.report import Report
from cocanet.cli.scenes import Scenes
from cocanet.cli.segment import Segment
from cocanet.runtime import spin_briefly


@dataclass(frozen=True)
class Train:
    """Train a model on a data set: `coca train PRESET --help` lists what can be set."""


Command = (
    Annotated[Demo, tyro.conf.subcommand("demo")]
    | Annotated[Train, tyro.conf.subcommand("train")]
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
        print(f"coca: {_in_words(error)}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt as stop:
        print(f"coca: {str(stop) or 'interrupted'}", file=sys.stderr)
        sys.exit(128 + getattr(stop, "signal", signal.SIGINT))


def _in_words(error: Exception) -> str:
    """The system's errors without their number."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _run(arguments: list[str]) -> None:
    if arguments == ["--version"]:
        print(f"coca {version('cocanet')}")
        return
    if arguments[:1] == ["train"]:
        # Its flags are a preset's fields; to know them takes torch, which the other commands need not wait for.
        from cocanet.cli.train import parse

        parse(arguments[1:]).start()
        return
    about = "Discover objects in images without labels, with COCA-Net."
    with registry:
        command: Any = tyro.cli(
            Command, prog="coca", description=about, args=arguments, config=(tyro.conf.FlagCreatePairsOff,)
        )  # type: ignore[arg-type]
    command.run()
