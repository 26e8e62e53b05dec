"""From a trained model and images of any size to masks, boxes and slot vectors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from cocanet.predict.base_segmenter import BaseSegmenter


def load(source: str | Path, device: str = "cpu", *, checkpoint: Literal["last", "best"] = "last") -> BaseSegmenter:
    """Load a trained model that segments images. An exported model needs no torch.

    `source` is the name of weights in the package, a weights file, a run folder (its `checkpoint`), a folder that
    `save_pretrained` wrote, or an .onnx file that `coca export` wrote. A name of the package comes first; write ./NAME
    for a file or folder with the same name.
    """
    suffix = Path(source).suffix
    if suffix == ".onnx":
        from cocanet.predict.onnx_segmenter import OnnxSegmenter

        return OnnxSegmenter(Path(source), device, str(source))
    if suffix == ".pt2":
        raise ValueError(f"{source} is a program for torch.export.load; expected weights or an .onnx file")
    from cocanet.predict.segmenter import Segmenter

    return Segmenter.load(source, device, checkpoint=checkpoint)
