"""`coca import`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True)
class Import:
    """Read a published data set, or your own images, a folder or Parquet files, into a store."""

    format: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FORMAT")]
    """deepmind-tfrecord, ocl-hdf5, clevrtex, shapestacks, birds, flowers, folder or parquet."""
    path: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="PATH")]
    """The file or folder as published."""
    out: Path
    """Folder of the store; if a stopped run left one there, it is continued."""
    split: str | None = None
    """train, val or test, or a variant with a part such as clevr6/train; everything if left out."""
    size: int | None = None
    """Pixels a side; the protocol's size if left out."""
    masks: Path | None = None
    """For a folder: where its masks are; for Parquet: their column."""
    column: str | None = None
    """For Parquet: the column of the images, if it is not the only one and not called image."""
    skip_damaged: bool = False
    """For a folder or Parquet: leave out images that cannot be read, instead of stopping at the first."""

    def run(self) -> None:
        from cocanet.cli.console import ConsoleWatcher
        from cocanet.data.filling import fill
        from cocanet.data.readers import OWN, open_source
        from cocanet.data.readers.files import DamagedFile

        watcher = ConsoleWatcher()
        with watcher.console.status("looking at the files"):
            source = open_source(
                self.format,
                self.path,
                split=self.split,
                size=self.size,
                masks=self.masks,
                skip_damaged=self.skip_damaged,
                column=self.column,
            )
        for reason in source.recipe.get("left_out", []):
            watcher.say(f"left out {reason}")
        try:
            fill(source, self.out, watcher=watcher)
        except DamagedFile as error:
            if self.format not in OWN:
                raise
            raise DamagedFile(f"{error}; with --skip-damaged such images are left out") from None
