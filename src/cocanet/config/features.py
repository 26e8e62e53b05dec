"""Features of a frozen pretrained network, instead of pixels: what a hierarchy clusters and a decoder predicts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from cocanet.config.checks import by, positive

EMBEDDED = "efficientnet-lite0"
"""The network whose weights come as a package of the extra `features`."""
LABELS = {EMBEDDED: "with ImageNet's labels"}
"""Networks that were trained with labels, and which: to be said beside every score."""
NAME = re.compile(r"[A-Za-z0-9_.-]+")
"""Names that timm gives its models; no path and no address of a hub."""


@dataclass(frozen=True)
class FeatureBackboneConfig:
    """A frozen pretrained network, and a small trained network on each cell of its maps."""

    features: str
    """efficientnet-lite0 (trained with ImageNet's labels), or a model of timm such as vit_small_patch14_dinov2."""
    grid: tuple[int, int] = (32, 32)
    """Rows and columns of cells to which all maps are resized."""
    input_size: tuple[int, int] = (256, 256)
    """Rows and columns of pixels to which images are resized for the network."""
    strides: tuple[int, ...] = (8, 16, 32)
    """Strides of the maps that are joined; a network with none of them gives its last map."""
    crop: float = 1.0
    """Training sees a random square of each grid, with sides from this share of the grid's to all of it, enlarged to
    the whole grid: so no place in the image says what is there. 1 for no crops."""
    kind: Literal["features"] = "features"

    def __post_init__(self) -> None:
        if not 0 < self.crop <= 1:
            raise ValueError(f"crop is a share of the grid; expected more than 0 and at most 1, got {self.crop}")
        if not NAME.fullmatch(self.features):
            raise ValueError(f"features names {EMBEDDED} or a model of timm; got {self.features!r}")
        positive(
            grid_height=self.grid[0],
            grid_width=self.grid[1],
            input_height=self.input_size[0],
            input_width=self.input_size[1],
        )
        if not self.strides or min(self.strides) < 1:
            raise ValueError(f"the strides of feature maps must be 1 or more; got {self.strides}")

    def grid_of(self, image_size: tuple[int, int]) -> tuple[int, int]:
        """Rows and columns of the first level's cells."""
        if any(side % cells for side, cells in zip(image_size, self.grid, strict=True)):
            raise ValueError(f"a grid of {by(self.grid)} cells does not divide {by(image_size)} images")
        return self.grid


@dataclass(frozen=True)
class FeatureDecoderConfig:
    """Each slot at each cell's position through an MLP: features and a mask logit."""

    hidden: int
    layers: int = 3
    """Hidden layers."""
    octaves: int = 4
    """Octaves of Fourier features in the position embedding."""
    cells: float = 1.0
    """Share of the cells, drawn anew for each step, that training decodes."""
    kind: Literal["features"] = "features"

    def __post_init__(self) -> None:
        positive(hidden=self.hidden, layers=self.layers)
        if self.octaves < 0:
            raise ValueError(f"octaves must be 0 or more; got {self.octaves}")
        if not 0 < self.cells <= 1:
            raise ValueError(f"cells is a share of the grid; expected more than 0 and at most 1, got {self.cells}")

    @property
    def about(self) -> str:
        """The decoder in words, for reports."""
        return "feature decoder; its images are the mean colours of its masks"
