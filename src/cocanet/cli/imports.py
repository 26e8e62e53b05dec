"""`coca import`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro


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
    skip_damaged: bool = False
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
