"""`coca data`: looking at a store."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True)
class DataInfo:
    """Say what a store holds, and check that it is what was written."""

    store: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="STORE")]

    def run(self) -> None:
        print_info(self.store)


@dataclass(frozen=True)
class DataShow:
    """Draw images of a store beside their coloured masks."""

    store: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="STORE")]
    out: Path = Path("sheet.png")
    """The picture to write."""
    count: int = 30
    """How many images."""
    first: int = 0
    """The first of them."""

    def run(self) -> None:
        save_sheet(self.store, self.out, count=self.count, first=self.first)


@dataclass(frozen=True)
class DataExport:
    """Write the images of a store, and their labels if it has any, as PNG files."""

    store: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="STORE")]
    out: Path = Path("images")
    """Folder for images/ and masks/."""

    def run(self) -> None:
        from cocanet.cli.console import ConsoleWatcher
        from cocanet.data.export import export_images
        from cocanet.data.store import Store
        from cocanet.words import plural

        count = export_images(Store(self.store), self.out, ConsoleWatcher())
        print(f"{self.out}: {plural(count, 'image')}")


@dataclass(frozen=True)
class Data:
    """Look at a store, or take its images out."""

    command: Annotated[
        Annotated[DataInfo, tyro.conf.subcommand("info")]
        | Annotated[DataShow, tyro.conf.subcommand("show")]
        | Annotated[DataExport, tyro.conf.subcommand("export")],
        tyro.conf.arg(name=""),
    ]

    def run(self) -> None:
        self.command.run()


def print_info(path: Path) -> None:
    """What a store holds, after checking that it is what was written."""
    from rich.console import Console
    from rich.filesize import decimal
    from rich.table import Table

    from cocanet.data.sheet import describe
    from cocanet.data.statistics import count_objects
    from cocanet.data.store import Store
    from cocanet.words import plural

    console = Console()
    with console.status("checking hashes"):
        store = Store(path)
    meta = store.meta
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_row("recipe", describe(store))
    table.add_row("images", f"{len(store):,} of {meta.width}×{meta.height}")
    shards = plural(len(meta.shards), "shard")
    table.add_row("on disk", f"{decimal(store.bytes)} in {shards}, all sha256 as written")
    if not store.has_labels:
        table.add_row("labels", "none")
    else:
        table.add_row("labels", f"{store.background_labels} background, then objects")
        with console.status("counting objects"):
            objects = count_objects(store)
        numbers = objects.images.nonzero()[0]
        mean = sum(number * count for number, count in enumerate(objects.images)) / objects.images.sum()
        if len(numbers) == 1:
            table.add_row("objects", f"{numbers[0]} in every image")
        else:
            table.add_row("objects", f"{numbers[0]} to {numbers[-1]} in an image, {mean:.2f} on average")
            for number in numbers:
                table.add_row("", f"{number:3d} in {plural(int(objects.images[number]), 'image')}")
        if objects.unlabelled:
            table.add_row("unlabelled", f"{objects.unlabelled:,} of the images")
        if numbers.max() > 0:
            table.add_row("smallest", f"{objects.smallest} pixels of an object show")
    factors = store[0].factors
    table.add_row("factors", ", ".join(factors) if factors else "none")
    console.print(table)


def save_sheet(path: Path, out: Path, *, count: int, first: int) -> None:
    """Draw images beside coloured masks into a picture file."""
    from cocanet.data.sheet import draw_sheet
    from cocanet.data.store import Store
    from cocanet.files import check_folder_writable

    check_folder_writable(out.parent)
    sheet = draw_sheet(Store(path, verify=False), count=count, first=first)
    out.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(out)
    print(f"{out}: {sheet.width}×{sheet.height}")
