"""What segmenting can be told, said once: fields are keywords in Python and flags of `coca segment`, with this help."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from cocanet.config import Fit

MaskKind = Literal["encoder", "decoder"]
Format = Literal["files", "parquet"]


@dataclass(frozen=True)
class SegmentSettings:
    """What is found in an image, and how."""

    masks: MaskKind = "encoder"
    """Whose masks; the encoder's are faster and usually sharper."""
    level: int | None = None
    """A level of the hierarchy, 1 for the smallest parts; the objects if left out."""
    dynamic: bool | None = None
    """As many slots as it takes to explain each image; as the model was made if left out."""
    slots: int | None = None
    """The number of slots, with --dynamic the most; as in training if left out."""
    feedback: int | None = None
    """Rounds of top-down feedback, 0 for none; as the model was made if left out."""
    min_area: int | float = 0.002
    """Smaller segments go to their neighbours: pixels, or below 1 a share of the image (on lower levels, a window)."""
    components: bool = False
    """Every connected part of a segment is an object of its own; those that are too small go to their neighbours."""
    fit: Fit | None = None
    """How an image of another shape is brought to the model's; if left out, as in training, or else by stretching."""
    temperature: float | None = None
    """Temperature of the last level, more for tighter objects; as the model was made if left out."""
    stop_below: float | None = None
    """With --dynamic: no further slot once less than this share is left; as the model was made if left out."""

    def __post_init__(self) -> None:
        if self.masks not in get_args(MaskKind):
            raise ValueError(f"masks must be encoder or decoder; got {self.masks!r}")
        if self.fit is not None and self.fit not in get_args(Fit):
            raise ValueError(f"fit must be one of {', '.join(get_args(Fit))}; got {self.fit!r}")
        if self.level is not None and self.masks == "decoder":
            raise ValueError("the decoder has no levels; leave out the level or ask for the encoder's masks")
        if self.slots is not None and self.slots < 1:
            raise ValueError(f"slots must be at least 1; got {self.slots}")
        if not self.min_area >= 0:
            raise ValueError(f"min_area must be 0 or more pixels, or a share of the image below 1; got {self.min_area}")
        if self.feedback is not None and self.feedback < 0:
            raise ValueError(f"feedback must be 0 or more rounds; got {self.feedback}")
        if self.temperature is not None and not 0 < self.temperature < math.inf:
            raise ValueError(f"temperature must be above 0; got {self.temperature}")

    def least_pixels(self, room: float) -> float:
        """Pixels that a segment needs where all segments together have `room`."""
        return float(self.min_area if self.min_area >= 1 else self.min_area * room)


@dataclass(frozen=True)
class OutputSettings:
    """Where results go, and which."""

    out: Path = Path("segments")
    """Folder for the results."""
    overwrite: bool = False
    """Write into a folder that is not empty; a run that was stopped there starts anew."""
    format: Format = "files"
    """Files for each image, or tables with a row for each segment: mask, box, vector."""
    part: int = 1024
    """Images in each file of a Parquet output."""
    keep_background: bool = False
    """Annotate the background too: the segment with most of the image's border."""
    sheet: int = 24
    """Images on the contact sheet, 0 for none."""
    batch: int = 16
    """Images the model takes at a time."""

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ValueError(f"a batch needs at least one image; got {self.batch}")
        if self.part < 1:
            raise ValueError(f"a part needs at least one image; got {self.part}")
        if self.sheet < 0:
            raise ValueError(f"sheet must be 0 or more images; got {self.sheet}")
