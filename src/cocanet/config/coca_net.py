"""Hyper-parameters of COCA-Net, validated on construction."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from cocanet.config.checks import by, positive
from cocanet.config.features import FeatureBackboneConfig, FeatureDecoderConfig
from cocanet.config.tokens import TokenDecoderConfig
from cocanet.config.windows import Window, dilated_candidates, grid_after

AttentionReach = Literal["window", "neighbourhood", "global"]
Frame = Literal["image", "slot"]
AnchorRule = Literal["compact", "random"]
NormScope = Literal["node", "image"]
InertiaRule = Literal["parallel-axis", "printed", "released"]


@dataclass(frozen=True)
class BackboneConfig:
    """The pixel feature encoder: one convolution, or several, and a pointwise MLP."""

    channels: int
    kernel: int
    input_gamma: float = 1.0
    """Exponent of the input colours; below 1 it separates dark colours from black. The paper has 1."""
    strides: tuple[int, ...] = (1,)
    """Stride of each convolution; the paper has one convolution of stride 1."""

    def __post_init__(self) -> None:
        positive(channels=self.channels, kernel=self.kernel, input_gamma=self.input_gamma)
        if not self.strides or min(self.strides) < 1:
            raise ValueError(f"the backbone needs at least one convolution, of stride 1 or more; got {self.strides}")
        if self.kernel % 2 == 0:
            raise ValueError(f"the backbone's kernel must be odd to keep the resolution; got {self.kernel}")

    def grid_of(self, image_size: tuple[int, int]) -> tuple[int, int]:
        """Rows and columns of the first level's cells: the pixels, unless there are strides."""
        shrinks = math.prod(self.strides)
        if any(side % shrinks for side in image_size):
            raise ValueError(f"the backbone shrinks by {shrinks}, which does not divide {by(image_size)} images")
        return image_size[0] // shrinks, image_size[1] // shrinks


@dataclass(frozen=True)
class LevelConfig:
    """One COCA layer: `window` cells become one cell with `clusters` nodes."""

    window: Window
    clusters: int
    temperature: float
    depth: int
    """Attention blocks that refine the features before clustering."""
    attention: AttentionReach = "window"
    kernel: int | None = None
    """Side of the neighbourhood in cells, for `attention="neighbourhood"`."""
    candidate_stride: int = 1
    """Score only every n-th cell, in both directions, as a candidate anchor."""

    def __post_init__(self) -> None:
        positive(
            window_height=self.window[0],
            window_width=self.window[1],
            clusters=self.clusters,
            temperature=self.temperature,
            candidate_stride=self.candidate_stride,
        )
        if self.depth < 0:
            raise ValueError(f"depth must be 0 or more; got {self.depth}")
        if (self.attention == "neighbourhood") != (self.kernel is not None):
            raise ValueError(
                f"kernel goes with attention='neighbourhood' and only with it; "
                f"got attention={self.attention!r}, kernel={self.kernel}"
            )


@dataclass(frozen=True)
class ConvConfig:
    """One layer of the decoder; a stride above 1 enlarges its input by as much."""

    channels: int
    kernel: int
    stride: int = 1

    def __post_init__(self) -> None:
        positive(channels=self.channels, kernel=self.kernel, stride=self.stride)
        if self.kernel % 2 == 0:
            raise ValueError(f"a decoder kernel must be odd to keep the resolution; got {self.kernel}")


@dataclass(frozen=True)
class DecoderConfig:
    """The spatial broadcast decoder: each slot on a grid of `broadcast` cells, then convolutions."""

    broadcast: tuple[int, int]
    layers: tuple[ConvConfig, ...]
    octaves: int = 0
    """Octaves of Fourier features in the position embedding. The paper has none."""
    frame: Frame = "image"
    """Origin of positions: the image's edges, as in the paper, or the slot's own centre."""
    prior_from: float | None = None
    """From this share of a run on, the encoder's masks are a prior of the decoder's: their log, without gradient, is
    added to the mask logits. None for no prior, as in the paper."""

    def __post_init__(self) -> None:
        positive(broadcast_height=self.broadcast[0], broadcast_width=self.broadcast[1])
        if not self.layers:
            raise ValueError("the decoder needs at least one layer")
        if self.layers[-1].channels != 4:
            raise ValueError(
                f"the decoder's last layer must have 4 channels (colour and mask); got {self.layers[-1].channels}"
            )
        if self.octaves < 0:
            raise ValueError(f"octaves must be 0 or more; got {self.octaves}")
        if self.frame == "slot" and not self.octaves:
            raise ValueError("frame='slot' describes shapes by Fourier features; expected octaves of 1 or more, got 0")
        if self.prior_from is not None and not 0 <= self.prior_from < 1:
            raise ValueError(f"prior_from is a share of the run, at least 0 and below 1; got {self.prior_from}")

    @property
    def about(self) -> str:
        """The decoder in words, for reports."""
        words = ["spatial broadcast decoder"]
        if self.frame == "slot":
            words = ["slot-centric spatial broadcast decoder", "each slot carries the shape of its encoder mask"]
        if self.prior_from is not None:
            words.append("encoder masks are a prior of its masks")
        return "; ".join(words)

    @property
    def pointwise(self) -> bool:
        """Whether each pixel is decoded by itself."""
        return all(layer.kernel == layer.stride == 1 for layer in self.layers)

    @property
    def output_size(self) -> tuple[int, int]:
        height, width = self.broadcast
        for layer in self.layers:
            height, width = height * layer.stride, width * layer.stride
        return height, width


@dataclass(frozen=True)
class DynamicSlots:
    """Dyna: at evaluation the last layer adds slots until little of the scope remains."""

    scope_threshold: float = 0.025
    """Stop when less than this share of the scope is left."""
    max_slots: int = 11

    def __post_init__(self) -> None:
        if not 0 < self.scope_threshold < 1:
            raise ValueError(f"scope_threshold must lie between 0 and 1; got {self.scope_threshold}")
        positive(max_slots=self.max_slots)


@dataclass(frozen=True)
class CocaNetConfig:
    """COCA-Net for images of one size."""

    image_size: tuple[int, int]
    dim: int
    backbone: BackboneConfig | FeatureBackboneConfig
    levels: tuple[LevelConfig, ...]
    decoder: DecoderConfig | TokenDecoderConfig | FeatureDecoderConfig
    heads: int = 4
    norm: NormScope = "node"
    anchors: AnchorRule = "compact"
    """Most compact first, or drawn at random (RAS)."""
    dynamic: DynamicSlots | None = None
    inertia: InertiaRule = "parallel-axis"
    """Moment of inertia of a pooled cluster; see `functional.geometry.pool_geometry`."""
    kind: Literal["coca-net"] = "coca-net"

    def __post_init__(self) -> None:
        positive(image_height=self.image_size[0], image_width=self.image_size[1], dim=self.dim, heads=self.heads)
        if not self.levels:
            raise ValueError("a hierarchy needs at least one level")
        self._check_decoder()
        grid, nodes = self.grid, 1
        for number, level in enumerate(self.levels, 1):
            nodes = self._check_level(number, level, nodes)
            grid = grid_after(grid, level.window)
        if grid != (1, 1):
            raise ValueError(
                f"the windows of {len(self.levels)} levels leave {by(grid)} cells of a {by(self.grid)} grid; "
                "expected the last level to have one window"
            )

    def _check_decoder(self) -> None:
        if isinstance(self.decoder, FeatureDecoderConfig) != isinstance(self.backbone, FeatureBackboneConfig):
            raise ValueError(
                "a feature decoder goes with a feature backbone and only with it; expected both or neither"
            )
        if isinstance(self.decoder, FeatureDecoderConfig):
            return
        if isinstance(self.decoder, TokenDecoderConfig):
            self.decoder.grid(self.image_size)
        elif self.decoder.output_size != self.image_size:
            raise ValueError(f"the decoder makes {by(self.decoder.output_size)} images; expected {by(self.image_size)}")
        elif self.decoder.frame == "slot" and self.grid != self.image_size:
            raise ValueError(f"frame='slot' needs a hierarchy of pixels; this one begins with {by(self.grid)} cells")

    def _check_level(self, number: int, level: LevelConfig, per_cell: int) -> int:
        """Check one level against the nodes that reach it; return how many it passes on."""
        last = number == len(self.levels)
        clusters = max(level.clusters, self.dynamic.max_slots) if last and self.dynamic else level.clusters
        nodes = level.window[0] * level.window[1] * per_cell
        candidates = len(dilated_candidates(level.window, per_cell, level.candidate_stride))
        if clusters > nodes:
            raise ValueError(f"level {number} cannot make {clusters} clusters of {nodes} nodes")
        if clusters - 1 > candidates:
            raise ValueError(
                f"level {number} needs {clusters - 1} anchors; a candidate stride of {level.candidate_stride} "
                f"leaves {candidates} candidates"
            )
        return level.clusters

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of the first level's cells: the pixels, unless the backbone has strides or features."""
        return self.backbone.grid_of(self.image_size)

    @property
    def slots(self) -> int:
        """Slots per image in training."""
        return self.levels[-1].clusters

    def window_pixels(self, level: int) -> Window:
        """Pixels, in rows and columns, that a window of a level covers; levels count from 1."""
        height, width = (side // cells for side, cells in zip(self.image_size, self.grid, strict=True))
        for part in self.levels[:level]:
            height, width = height * part.window[0], width * part.window[1]
        return height, width
