"""Figures on disk."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

from matplotlib.figure import Figure

from cocanet.files import write_atomically

FORMATS = ("png", "pdf", "svg")


def check_format(path: Path) -> str:
    """The format that a file's ending asks for."""
    ending = path.suffix.lower().lstrip(".")
    if ending not in FORMATS:
        raise ValueError(f"cannot write a picture to {path}: expected a file that ends in .png, .pdf or .svg")
    return ending


def save(figure: Figure, path: Path, dpi: int = 200) -> None:
    """Write a picture so that a reader never sees half of it; the file's ending says in which format."""
    drawn = BytesIO()
    figure.savefig(drawn, dpi=dpi, format=check_format(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, [drawn.getbuffer()])
