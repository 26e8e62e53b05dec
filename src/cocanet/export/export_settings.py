"""Settings of an export: keywords in Python, and flags of `coca export` with these docstrings as help."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

ExportFormat = Literal["onnx", "torch"]
SUFFIXES: dict[ExportFormat, str] = {"onnx": ".onnx", "torch": ".pt2"}


@dataclass(frozen=True)
class ExportSettings:
    """What an export contains, and where it is written."""

    format: ExportFormat = "onnx"
    """onnx for onnxruntime and similar runtimes, torch for torch.export.load."""
    out: Path | None = None
    """The file to write, .onnx or .pt2; if left out, the name of the weights with that suffix."""
    decoder: bool = False
    """Include the decoder, for its masks and the reconstruction; the encoder alone is smaller and faster."""
    refine: bool = False
    """Include refinement of the objects' masks; the file then always refines."""
    slots: int | None = None
    """Number of slots, with --dynamic the maximum; as in training if left out."""
    dynamic: bool | None = None
    """Add slots until they explain the image; as in the model's preset if left out."""
    images: int = 16
    """Synthetic images on which torch and the file are compared."""

    def __post_init__(self) -> None:
        if self.format not in get_args(ExportFormat):
            raise ValueError(f"format must be onnx or torch; got {self.format!r}")
        if self.out is not None and self.out.suffix != SUFFIXES[self.format]:
            raise ValueError(f"a file for {self.format} ends in {SUFFIXES[self.format]}; got {self.out}")
        if self.slots is not None and self.slots < 1:
            raise ValueError(f"slots must be at least 1; got {self.slots}")
        if self.images < 1:
            raise ValueError(f"an export is compared on at least one image; got images={self.images}")

    def path(self, weights: str) -> Path:
        return self.out or Path(f"{Path(weights).stem}{SUFFIXES[self.format]}")
