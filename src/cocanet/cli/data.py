"""`coca scenes`, `coca import` and `coca data`: making, bringing and looking at data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


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
    skip_damaged: tyro.conf.FlagCreatePairsOff[bool] = False
    """For a folder: leave out images that cannot be read, instead of stopping at the first."""

    def run(self) -> None:
        from cocanet.data.commands import import_files

        import_files(
            self.format,
            self.path,
            out=self.out,
            split=self.split,
            size=self.size,
            masks=self.masks,
            skip_damaged=self.skip_damaged,
        )


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
