"""What an export can be told, said once: fields are keywords in Python and flags of `coca export`, with this help."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

Format = Literal["onnx", "torch"]
SUFFIXES: dict[Format, str] = {"onnx": ".onnx", "torch": ".pt2"}


@dataclass(frozen=True)
class ExportSettings:
    """What is carried, and where to."""

    format: Format = "onnx"
    """onnx for onnxruntime and others like it, torch for torch.export.load."""
    out: Path | None = None
    """The file to write, .onnx or .pt2; if left out the weights' name with that ending."""
    decoder: bool = False
    """With the decoder, for its masks and for what it paints; the encoder alone is smaller and faster."""
    feedback: int | None = None
    """Rounds of top-down feedback in the file, 0 for none; as the model was made if left out."""
    slots: int | None = None
    """The number of slots in the file, with --dynamic the most; as in training if left out."""
    dynamic: bool | None = None
    """As many slots as it takes to explain each image; as the model was made if left out."""
    images: int = 16
    """Pictures that torch and the file are compared on."""

    def __post_init__(self) -> None:
        if self.format not in get_args(Format):
            raise ValueError(f"format must be onnx or torch; got {self.format!r}")
        if self.out is not None and self.out.suffix != SUFFIXES[self.format]:
            raise ValueError(f"a file for {self.format} ends in {SUFFIXES[self.format]}; got {self.out}")
        if self.slots is not None and self.slots < 1:
            raise ValueError(f"slots must be at least 1; got {self.slots}")
        if self.feedback is not None and self.feedback < 0:
            raise ValueError(f"feedback must be 0 or more rounds; got {self.feedback}")
        if self.images < 1:
            raise ValueError(f"an export is compared on at least one picture; got images={self.images}")

    def path(self, weights: str) -> Path:
        return self.out or Path(f"{Path(weights).stem}{SUFFIXES[self.format]}")
