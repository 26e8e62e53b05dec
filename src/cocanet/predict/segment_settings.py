"""Settings of segmentation: keywords in Python, and flags of `coca segment` with these docstrings as help."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from cocanet.config import Fit

MaskKind = Literal["encoder", "decoder"]
OutputFormat = Literal["files", "parquet"]
WorkerKind = Literal["processes", "ray"]
AnnotationFormat = Literal["voc", "yolo", "label-studio"]


@dataclass(frozen=True)
class SegmentSettings:
    """How a model segments an image."""

    masks: MaskKind = "encoder"
    """Masks of the encoder or of the decoder; the encoder is faster and usually sharper."""
    level: int | None = None
    """A level of the hierarchy, 1 for the smallest parts; the last level, objects, if left out."""
    dynamic: bool | None = None
    """Add slots until they explain the image; as in the model's preset if left out."""
    slots: int | None = None
    """Number of slots, with --dynamic the maximum; as in training if left out."""
    refine: bool = False
    """Refine the objects' masks after the network: mean field over colours and neighbours, merged components."""
    min_area: int | float = 0.002
    """Smallest segment, in pixels or, below 1, as a share of the image (on lower levels, of a window)."""
    min_score: int | float = 0.2
    """Lowest score of an object, the probability that a segment is one; what scores less is background. 0 keeps all."""
    components: bool = False
    """Make every connected component of an object an object of its own."""
    fit: Fit | None = None
    """How images get the model's shape; if left out as in training, or else stretch."""
    temperature: float | None = None
    """Temperature of the last level, higher for tighter objects; as in the model's preset if left out."""
    scope_threshold: float | None = None
    """With --dynamic: add no slot once less than this share is unexplained; as in the model's preset if left out."""

    def __post_init__(self) -> None:
        if self.masks not in get_args(MaskKind):
            raise ValueError(f"masks must be encoder or decoder; got {self.masks!r}")
        if self.fit is not None and self.fit not in get_args(Fit):
            raise ValueError(f"fit must be one of {', '.join(get_args(Fit))}; got {self.fit!r}")
        if self.level is not None and self.masks == "decoder":
            raise ValueError("the decoder has no levels; leave out the level or use the encoder's masks")
        if self.slots is not None and self.slots < 1:
            raise ValueError(f"slots must be at least 1; got {self.slots}")
        if not self.min_area >= 0:
            raise ValueError(f"min_area must be 0 or more pixels, or a share of the image below 1; got {self.min_area}")
        if not 0 <= self.min_score < 1:
            raise ValueError(f"min_score is a probability below 1; got {self.min_score}")
        if self.temperature is not None and not 0 < self.temperature < math.inf:
            raise ValueError(f"temperature must be above 0; got {self.temperature}")

    def min_pixels(self, area: float) -> float:
        """The smallest segment of an image or window with `area` pixels."""
        return float(self.min_area if self.min_area >= 1 else self.min_area * area)


@dataclass(frozen=True)
class OutputSettings:
    """Where results go, and in which format."""

    out: Path = Path("segments")
    """Folder for the results."""
    overwrite: bool = False
    """Write into a folder that is not empty; an unfinished run in it starts again from the beginning."""
    format: OutputFormat = "files"
    """Files for each image, or tables with a row for each segment: mask, box, vector."""
    also: tuple[AnnotationFormat, ...] = ()
    """Annotations besides COCO's objects.json: voc, yolo, label-studio, or several."""
    part: int = 1024
    """Images in each Parquet file."""
    keep_background: bool = False
    """Annotate the background too: the segment with most of the image's border."""
    sheet: int = 24
    """Images on the contact sheet, 0 for no sheet."""
    batch: int = 16
    """Images in a batch."""

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ValueError(f"a batch needs at least one image; got {self.batch}")
        if self.part < 1:
            raise ValueError(f"a part needs at least one image; got {self.part}")
        if self.also and self.format != "files":
            raise ValueError(f"annotations ({', '.join(self.also)}) go with files; got the format {self.format}")
        if self.sheet < 0:
            raise ValueError(f"sheet must be 0 or more images; got {self.sheet}")


@dataclass(frozen=True)
class WorkerSettings:
    """How many processes segment images, and where."""

    workers: int | None = None
    """Worker processes with one thread each, best as many as cores; if left out this process with all its threads, or
    with Ray every core of the cluster."""
    engine: WorkerKind = "processes"
    """Processes on this machine, or actors of a running Ray cluster (one starts here if there is none)."""

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise ValueError(f"workers must be at least 1; got {self.workers}")
