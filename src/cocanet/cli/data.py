"""`coca scenes`, `coca import` and `coca data`: stores of images and their labels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from cocanet.config import Fit

if TYPE_CHECKING:
    from rich.table import Table

    from cocanet.data.store import Store

StorePath = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="STORE")]

DATA_COMMANDS = ("info", "show", "export")


@dataclass(frozen=True)
class Scenes:
    """Generate a data set of scenes with exact instance masks."""

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="SET")]
    """tetrominoes, multi-dsprites, objects-room, shapestacks, clevr or clevrtex."""
    count: int
    """How many images."""
    out: Path
    """Folder of the store; an unfinished store there is continued."""
    seed: int = 0
    """Image i of a seed is always the same."""
    workers: int = 1
    """Processes that share the work."""
    max_objects: int | None = None
    """Most objects in a scene, where the set has a choice; 6 makes CLEVR6 of clevr."""
    size: int | None = None
    """Pixels a side; the published size if left out."""

    def run(self) -> None:
        from cocanet.cli.progress import ConsoleProgress
        from cocanet.data.generators import make_scenes
        from cocanet.data.store_writer import write_store

        source = make_scenes(self.name, count=self.count, seed=self.seed, max_objects=self.max_objects, size=self.size)
        write_store(source, self.out, workers=self.workers, progress=ConsoleProgress())


@dataclass(frozen=True)
class Import:
    """Import a published data set, or your own images with or without masks, into a store."""

    format: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FORMAT")]
    """Your own: folder, coco, voc, yolo or parquet. Published: deepmind-tfrecord, ocl-hdf5, clevrtex, shapestacks,
    birds or flowers."""
    path: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="PATH")]
    """The file or folder as published."""
    out: Path
    """Folder of the store; an unfinished store there is continued."""
    split: str | None = None
    """train, val or test, or a variant with a part such as clevr6/train; everything if left out."""
    size: int | None = None
    """Pixels a side; the protocol's size if left out."""
    masks: Path | None = None
    """For a folder: where its masks are, if not in masks/ or beside the images as NAME_mask; for Parquet: their
    column."""
    images: Path | None = None
    """For coco, voc and yolo: where the images are, if not beside the annotations."""
    fit: Fit | None = None
    """How your own images become squares: stretch (if left out) and pad keep all of each, crop cuts off the sides."""
    column: str | None = None
    """For Parquet: the column of the images, if it is not the only one and not called image."""
    skip_damaged: bool = False
    """For your own images: leave out those that cannot be read, instead of stopping at the first."""

    def run(self) -> None:
        from cocanet.cli.progress import ConsoleProgress
        from cocanet.data.readers import OWN, open_source
        from cocanet.data.readers.input_files import DamagedFile
        from cocanet.data.store_writer import write_store

        progress = ConsoleProgress()
        with progress.console.status("reading the files"):
            source = open_source(
                self.format,
                self.path,
                split=self.split,
                size=self.size,
                masks=self.masks,
                images=self.images,
                fit=self.fit,
                skip_damaged=self.skip_damaged,
                column=self.column,
            )
        for reason in source.recipe.get("left_out", []):
            progress.say(f"left out {reason}")
        try:
            write_store(source, self.out, progress=progress)
        except DamagedFile as error:
            if self.format not in OWN:
                raise
            raise DamagedFile(f"{error}; with --skip-damaged such images are left out") from None


@dataclass(frozen=True)
class DataInfo:
    """Print what a store holds, after checking its hashes."""

    store: StorePath

    def run(self) -> None:
        from rich.console import Console

        from cocanet.data.store import Store

        console = Console()
        with console.status("checking hashes"):
            store = Store(self.store)
        with console.status("counting objects"):
            table = info_table(store)
        console.print(table)


@dataclass(frozen=True)
class DataShow:
    """Draw images of a store beside their coloured masks."""

    store: StorePath
    out: Path = Path("sheet.png")
    """The picture to write."""
    count: int = 30
    """How many images."""
    first: int = 0
    """The first of them."""

    def run(self) -> None:
        from cocanet.data.store import Store
        from cocanet.data.summary import draw_sheet
        from cocanet.files import check_folder_writable

        check_folder_writable(self.out.parent)
        sheet = draw_sheet(Store(self.store, verify=False), count=self.count, first=self.first)
        self.out.parent.mkdir(parents=True, exist_ok=True)
        sheet.save(self.out)
        print(f"{self.out}: {sheet.width}×{sheet.height}")


@dataclass(frozen=True)
class DataExport:
    """Write the images of a store, and their labels if it has any, as PNG files."""

    store: StorePath
    out: Path = Path("images")
    """Folder for images/ and masks/."""

    def run(self) -> None:
        from cocanet.cli.progress import ConsoleProgress
        from cocanet.data.converters import export_images
        from cocanet.data.store import Store
        from cocanet.words import plural

        count = export_images(Store(self.store), self.out, ConsoleProgress())
        print(f"{self.out}: {plural(count, 'image')}")


@dataclass(frozen=True)
class Data:
    """Look at a store, or export its images."""

    command: Annotated[
        Annotated[DataInfo, tyro.conf.subcommand("info")]
        | Annotated[DataShow, tyro.conf.subcommand("show")]
        | Annotated[DataExport, tyro.conf.subcommand("export")],
        tyro.conf.arg(name=""),
    ]

    def run(self) -> None:
        self.command.run()


def info_table(store: Store) -> Table:
    """What a store holds."""
    from rich.filesize import decimal
    from rich.table import Table

    from cocanet.data.summary import describe
    from cocanet.words import plural

    meta, factors = store.meta, store[0].factors
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_row("recipe", describe(store))
    table.add_row("images", f"{len(store):,} of {meta.width}×{meta.height}")
    table.add_row("on disk", f"{decimal(store.bytes)} in {plural(len(meta.shards), 'shard')}, all sha256 as written")
    if store.has_labels:
        _add_labels(table, store)
    else:
        table.add_row("labels", "none")
    table.add_row("factors", ", ".join(factors) if factors else "none")
    return table


def _add_labels(table: Table, store: Store) -> None:
    from cocanet.data.summary import count_objects
    from cocanet.words import plural

    objects = count_objects(store)
    numbers = objects.images.nonzero()[0]
    table.add_row("labels", f"{store.background_labels} background, then objects")
    if len(numbers) == 1:
        table.add_row("objects", f"{numbers[0]} in every image")
    else:
        mean = sum(number * count for number, count in enumerate(objects.images)) / objects.images.sum()
        table.add_row("objects", f"{numbers[0]} to {numbers[-1]} in an image, {mean:.2f} on average")
        for number in numbers:
            table.add_row("", f"{number:3d} in {plural(int(objects.images[number]), 'image')}")
    if objects.unlabelled:
        table.add_row("unlabelled", f"{objects.unlabelled:,} of the images")
    if numbers.max() > 0:
        table.add_row("smallest", f"{objects.smallest} visible pixels of an object")
