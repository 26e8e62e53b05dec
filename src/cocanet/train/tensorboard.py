"""Scores and pictures of a run for TensorBoard, where it is installed and requested."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class Scalars:
    """Event files in `folder`; without a folder it does nothing.

    A resumed run names the first step it does again as `purge_step`: TensorBoard then hides what the interrupted
    process wrote at that step and later.
    """

    def __init__(self, folder: Path | None, purge_step: int | None = None) -> None:
        self._writer = None if folder is None else _open(folder, purge_step)

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """A point on the curve of each name; what stands before a slash groups the curves."""
        if self._writer:
            for name, value in values.items():
                self._writer.add_scalar(name, value, step)

    def picture(self, step: int, name: str, path: Path) -> None:
        """A picture from a PNG file."""
        if self._writer:
            with Image.open(path) as image:
                pixels = np.array(image.convert("RGB"))
            self._writer.add_image(name, pixels, step, dataformats="HWC")

    def close(self) -> None:
        """Write what waits to be written; nothing is added afterwards."""
        if self._writer:
            self._writer.close()
            self._writer = None


def _open(folder: Path, purge_step: int | None) -> SummaryWriter:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ValueError(
            "TensorBoard is not installed; pip install 'cocanet[tensorboard]', or train without it "
            "(metrics.jsonl has the same numbers)"
        ) from error
    return SummaryWriter(str(folder), purge_step=purge_step)
