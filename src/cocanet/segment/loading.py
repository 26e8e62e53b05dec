"""One way to a segmenter, from whatever holds a model; an exported one needs no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from cocanet.segment.base import AnySegmenter


def load(source: str | Path, device: str = "cpu", *, checkpoint: Literal["last", "best"] = "last") -> AnySegmenter:
    """A trained model, ready to segment images.

    The name of weights that come with the package, a weights file, a run folder (its `checkpoint`), a folder that
    `save_pretrained` wrote, or an .onnx file that `coca export` wrote. A name is tried first; write ./NAME for a file
    or folder of that name.
    """
    kind = Path(source).suffix
    if kind == ".onnx":
        from cocanet.segment.onnx_segmenter import OnnxSegmenter

        return OnnxSegmenter(Path(source), device, str(source))
    if kind == ".pt2":
        raise ValueError(f"{source} is a program for torch.export.load; cocanet opens an .onnx file, or weights")
    from cocanet.segment.segmenter import load as load_weights

    return load_weights(source, device, checkpoint=checkpoint)
