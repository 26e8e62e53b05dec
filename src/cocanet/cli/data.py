"""`coca data`: looking at a store."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


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
