"""The command `coca`: the only place that parses arguments.

A command is a dataclass whose fields are its flags and whose `run` does the work; it imports what it needs only then,
so that `coca --help` answers at once.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro


@dataclass(frozen=True)
class Demo:
    """Train on generated Tetrominoes for about a minute, print the scores and draw what was found."""

    out: Path = Path("demo")
    """Folder for the picture and the weights."""

    def run(self) -> None:
        from cocanet.demo import run_demo

        run_demo(self.out)


@dataclass(frozen=True)
class Scenes:
    """Generate a data set of scenes with exact instance masks."""

    name: tyro.conf.Positional[str]
    """tetrominoes, multi-dsprites, objects-room, shapestacks, clevr or clevrtex."""
    count: int
    """How many images."""
    out: Path
    """Folder of the store; if a stopped run left one there, it is continued."""
    seed: int = 0
    """Image i of a seed is always the same."""
    workers: int = 1
    """Processes to share the work."""
    max_objects: int | None = None
    """Most objects in a scene, where the set leaves a choice; 6 makes CLEVR6 of clevr."""
    size: int | None = None
    """Pixels a side; the published size if left out."""

    def run(self) -> None:
        from cocanet.data.commands import generate

        generate(
            self.name,
            count=self.count,
            seed=self.seed,
            out=self.out,
            workers=self.workers,
            max_objects=self.max_objects,
            size=self.size,
        )


@dataclass(frozen=True)
class Import:
    """Read a published data set, or a folder of your own images, into a store."""

    format: tyro.conf.Positional[str]
    """deepmind-tfrecord, ocl-hdf5, clevrtex, shapestacks, birds, flowers or folder."""
    path: tyro.conf.Positional[Path]
    """The file or folder as published."""
    out: Path
    """Folder of the store; if a stopped run left one there, it is continued."""
    split: str | None = None
    """train, val or test, or a variant with a part such as clevr6/train; everything if left out."""
    size: int | None = None
    """Pixels a side; the protocol's size if left out."""
    masks: Path | None = None
    """For a folder: where its masks are."""

    def run(self) -> None:
        from cocanet.data.commands import import_files

        import_files(self.format, self.path, out=self.out, split=self.split, size=self.size, masks=self.masks)


@dataclass(frozen=True)
class DataInfo:
    """Say what a store holds, and check that it is what was written."""

    store: tyro.conf.Positional[Path]

    def run(self) -> None:
        from cocanet.data.commands import print_info

        print_info(self.store)


@dataclass(frozen=True)
class DataShow:
    """Draw images of a store beside their coloured masks."""

    store: tyro.conf.Positional[Path]
    out: Path = Path("sheet.png")
    """The picture to write."""
    count: int = 30
    """How many images."""
    first: int = 0
    """The first of them."""

    def run(self) -> None:
        from cocanet.data.commands import save_sheet

        save_sheet(self.store, self.out, count=self.count, first=self.first)


@dataclass(frozen=True)
class Data:
    """Look at a store."""

    command: Annotated[
        Annotated[DataInfo, tyro.conf.subcommand("info")] | Annotated[DataShow, tyro.conf.subcommand("show")],
        tyro.conf.arg(name=""),
    ]

    def run(self) -> None:
        self.command.run()


Command = (
    Annotated[Demo, tyro.conf.subcommand("demo")]
    | Annotated[Scenes, tyro.conf.subcommand("scenes")]
    | Annotated[Import, tyro.conf.subcommand("import")]
    | Annotated[Data, tyro.conf.subcommand("data")]
)


def main(arguments: list[str] | None = None) -> None:
    """Parse and run one command; a user's mistake ends with one line and exit code 2."""
    about = "Discover objects in images without labels, with COCA-Net."
    command: Any = tyro.cli(Command, prog="coca", description=about, args=arguments)  # type: ignore[arg-type]
    try:
        command.run()
    except (ValueError, OSError) as error:
        print(f"coca: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt as stop:
        print(f"coca: {str(stop) or 'interrupted'}", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
