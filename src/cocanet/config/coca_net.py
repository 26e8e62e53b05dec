"""COCA-Net as numbers: every field is checked where it is built."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from cocanet.config.checks import by, not_negative, positive
from cocanet.config.tokens import TokenDecoderConfig
from cocanet.config.windows import Window, dilated_candidates, grid_after

AttentionReach = Literal["window", "neighbourhood", "global"]
Frame = Literal["image", "slot"]
AnchorRule = Literal["compact", "random"]
NormScope = Literal["node", "image"]


@dataclass(frozen=True)
class BackboneConfig:
    """The pixel feature encoder: one convolution, or several, and a pointwise MLP."""

    channels: int
    kernel: int
    gamma: float = 1.0
    """Exponent of the colours before the first layer; below 1 it sets dark colours apart from black. The paper: 1."""
    strides: tuple[int, ...] = (1,)
    """A convolution for each, which shrinks its input by as much; the paper has one, of stride 1."""

    def __post_init__(self) -> None:
        positive(channels=self.channels, kernel=self.kernel, gamma=self.gamma)
        if not self.strides or min(self.strides) < 1:
            raise ValueError(f"the backbone needs at least one convolution, of stride 1 or more; got {self.strides}")
        if self.kernel % 2 == 0:
            raise ValueError(f"the backbone's kernel must be odd to keep the resolution; got {self.kernel}")


@dataclass(frozen=True)
class LevelConfig:
    """One COCA layer: `window` cells become one cell with `clusters` nodes."""

    window: Window
    clusters: int
    temperature: float
    depth: int
    """Number of attention blocks that refine the features before clustering."""
    attention: AttentionReach = "window"
    kernel: int | None = None
    """Side of the neighbourhood in cells, for `attention="neighbourhood"`."""
    candidate_stride: int = 1
    """Score only every n-th cell, in both directions, as an anchor."""
    sharpen: float = 1.0
    """Factor of the temperature at evaluation: tighter clusters than were trained. The paper: 1."""

    def __post_init__(self) -> None:
        positive(
            window_height=self.window[0],
            window_width=self.window[1],
            clusters=self.clusters,
            temperature=self.temperature,
            candidate_stride=self.candidate_stride,
            sharpen=self.sharpen,
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
    """Octaves of Fourier features in the position embedding; the paper has none."""
    frame: Frame = "image"
    """What a slot counts positions from: the image's edges as in the paper, or its own centre."""
    prior: float = 0.0
    """Weight of the logarithm of the encoder's masks in the decoder's mask logits: with 1 the decoder begins from what
    the encoder found and corrects it, with 0, as in the paper, it knows slots only."""

    def __post_init__(self) -> None:
        positive(broadcast_height=self.broadcast[0], broadcast_width=self.broadcast[1])
        if not self.layers:
            raise ValueError("the decoder needs at least one layer")
        if self.layers[-1].channels != 4:
            raise ValueError(
                f"the decoder's last layer must have 4 channels (colour and mask); got {self.layers[-1].channels}"
            )
        not_negative(prior=self.prior)
        if self.octaves < 0:
            raise ValueError(f"octaves must be 0 or more; got {self.octaves}")
        if self.frame == "slot" and not self.octaves:
            raise ValueError("frame='slot' describes shapes by Fourier features; expected octaves of 1 or more, got 0")

    @property
    def output_size(self) -> tuple[int, int]:
        height, width = self.broadcast
        for layer in self.layers:
            height, width = height * layer.stride, width * layer.stride
        return height, width


@dataclass(frozen=True)
class DynamicSlots:
    """Dyna: at evaluation the last layer goes on until little of the scope remains."""

    stop_below: float = 0.025
    """Stop when this fraction of the scope, or less, is unexplained."""
    most: int = 11
    """Never more slots than this."""

    def __post_init__(self) -> None:
        if not 0 < self.stop_below < 1:
            raise ValueError(f"stop_below must lie between 0 and 1; got {self.stop_below}")
        positive(most=self.most)


@dataclass(frozen=True)
class FeedbackConfig:
    """Top-down feedback: slots and neighbours correct the masks from below, and slots are pooled again under them.

    The paper has none. Nothing of it is learned, so any weights can be used with and without it.
    """

    rounds: int = 0
    """Rounds of correction; 0 for none."""
    neighbours: float = 16.0
    """Weight of the votes of a pixel's neighbours."""
    contrast: float = 0.5
    """Deviation of colour at which a neighbour's vote counts little."""
    reach: int = 2
    """Rows and columns to a neighbour at most."""
    figure: float = 1.0
    """How far the smaller of two segments, the figure, owns the border between them."""
    smallest: float = 0.003
    """Share of an image below which a segment is taken for a stray instead."""
    slots: float = 1.0
    """Weight of how well a slot's mean colour and place explain a pixel."""
    noise: float = 0.01
    """Added to a slot's variance of colour."""
    light: float = 0.5
    """Weight of brightness in colours, against hue."""
    palette: float = 0.0
    """Weight of how often a slot's palette, the histogram of its colours, has a pixel's colour."""
    regroup: bool = False
    """Whether the masks' connected pieces are then grouped anew, so that two things apart are two slots."""
    regroup_noise: float | None = None
    """Added to a group's variance of colour there; as `noise` if left out. With less, less stays together."""
    rim: float = 0.0
    """Part of a figure's colour from which a pixel at its border is its own; 0 leaves borders as they are."""
    ground: bool = False
    """Whether all segments that reach two sides of the picture, or are ragged, are one: the squares of a floor."""
    whole: float = 0.0
    """Pixels of outline, for each pixel of size, that it must save to take two segments that touch for one box or ball,
    as the bright and the dark side of what shines; 0 joins none."""
    pieces: bool = False
    """Whether pieces of a segment that lie apart then get slots of their own, as long as there are some without
    pixels."""
    upright: float = 0.0
    """Nats of brightness that it must save to cut a large segment along an upright line, as where two walls meet, by
    a slot without pixels; 0 cuts none."""
    level: float = 0.0
    """Pixels of outline that it must save to take a small segment for two boxes or balls, one on the other; 0 cuts
    none."""

    def __post_init__(self) -> None:
        not_negative(
            rounds=self.rounds,
            neighbours=self.neighbours,
            figure=self.figure,
            smallest=self.smallest,
            slots=self.slots,
            light=self.light,
            palette=self.palette,
            whole=self.whole,
            upright=self.upright,
            level=self.level,
        )
        positive(contrast=self.contrast, reach=self.reach, noise=self.noise)
        if self.regroup_noise is not None:
            positive(regroup_noise=self.regroup_noise)
        if not 0 <= self.rim < 1:
            raise ValueError(f"rim is a part of a colour; expected at least 0 and less than 1, got {self.rim}")

    @property
    def reassigns(self) -> bool:
        """Whether a slot may get pixels that its anchor had nothing of."""
        return any((self.regroup, self.ground, self.whole, self.pieces, self.upright, self.level))


@dataclass(frozen=True)
class CocaNetConfig:
    """COCA-Net for images of one size."""

    image_size: tuple[int, int]
    dim: int
    backbone: BackboneConfig
    levels: tuple[LevelConfig, ...]
    decoder: DecoderConfig | TokenDecoderConfig
    heads: int = 4
    norm: NormScope = "node"
    anchors: AnchorRule = "compact"
    """Most compact first, or drawn at random (RAS)."""
    dynamic: DynamicSlots | None = None
    feedback: FeedbackConfig = field(default_factory=FeedbackConfig)
    kind: Literal["coca-net"] = "coca-net"

    def __post_init__(self) -> None:
        positive(image_height=self.image_size[0], image_width=self.image_size[1], dim=self.dim, heads=self.heads)
        if not self.levels:
            raise ValueError("a hierarchy needs at least one level")
        self._check_decoder()
        shrinks = math.prod(self.backbone.strides)
        if any(side % shrinks for side in self.image_size):
            raise ValueError(f"the backbone shrinks by {shrinks}, which does not divide {by(self.image_size)} images")
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
        if isinstance(self.decoder, TokenDecoderConfig):
            self.decoder.grid(self.image_size)
        elif self.decoder.output_size != self.image_size:
            raise ValueError(f"the decoder makes {by(self.decoder.output_size)} images; expected {by(self.image_size)}")
        elif self.decoder.frame == "slot" and self.grid != self.image_size:
            raise ValueError(f"frame='slot' needs a hierarchy of pixels; this one begins with {by(self.grid)} cells")

    def _check_level(self, number: int, level: LevelConfig, per_cell: int) -> int:
        """Check one level against the nodes that reach it; return how many it passes on."""
        last = number == len(self.levels)
        clusters = max(level.clusters, self.dynamic.most) if last and self.dynamic else level.clusters
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
        """Rows and columns of cells that the first level sees: the pixels, unless the backbone shrinks the image."""
        shrinks = math.prod(self.backbone.strides)
        return self.image_size[0] // shrinks, self.image_size[1] // shrinks

    @property
    def slots(self) -> int:
        """Slots per image in training."""
        return self.levels[-1].clusters

    def window_pixels(self, level: int) -> Window:
        """Rows and columns of the image that a window of a level, counted from 1, sees."""
        height, width = (side // cells for side, cells in zip(self.image_size, self.grid, strict=True))
        for part in self.levels[:level]:
            height, width = height * part.window[0], width * part.window[1]
        return height, width
