"""What a model and a run are: frozen dataclasses, checked where they are built."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from cocanet.functional.clustering import dilated_candidates
from cocanet.functional.windows import Window, grid_after
from cocanet.layers.coca import AnchorRule
from cocanet.layers.norm import NormScope
from cocanet.models.baselines.config import BoQsaConfig, InvSaConfig, SlotAttentionConfig
from cocanet.models.baselines.genesis_v2_config import GenesisV2Config

Precision = Literal["32", "bf16"]
AttentionReach = Literal["window", "neighbourhood", "global"]
Frame = Literal["image", "slot"]


@dataclass(frozen=True)
class BackboneConfig:
    """The pixel feature encoder: one convolution and a pointwise MLP."""

    channels: int
    kernel: int
    gamma: float = 1.0
    """Exponent of the colours before the first layer; below 1 it sets dark colours apart from black. The paper: 1."""

    def __post_init__(self) -> None:
        _positive(channels=self.channels, kernel=self.kernel, gamma=self.gamma)
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
    """Score only every so many-th cell, in both directions, as an anchor."""
    sharpen: float = 1.0
    """At evaluation, temperature is so many times as high: tighter clusters than were trained. The paper: 1."""

    def __post_init__(self) -> None:
        _positive(
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
        _positive(channels=self.channels, kernel=self.kernel, stride=self.stride)
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
        _positive(broadcast_height=self.broadcast[0], broadcast_width=self.broadcast[1])
        if not self.layers:
            raise ValueError("the decoder needs at least one layer")
        if self.layers[-1].channels != 4:
            raise ValueError(
                f"the decoder's last layer must have 4 channels (colour and mask); got {self.layers[-1].channels}"
            )
        _not_negative(prior=self.prior)
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
        _positive(most=self.most)


@dataclass(frozen=True)
class FeedbackConfig:
    """Top-down feedback: slots and neighbours correct the masks from below, and slots are pooled again under them.

    The paper has none. Nothing of it is learned, so any weights can be used with and without it.
    """

    rounds: int = 0
    """Of correction; 0 for none."""
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
    regroup: bool = False
    """Whether the masks' connected pieces are then grouped anew, so that two things apart are two slots."""

    def __post_init__(self) -> None:
        _not_negative(
            rounds=self.rounds,
            neighbours=self.neighbours,
            figure=self.figure,
            smallest=self.smallest,
            slots=self.slots,
            light=self.light,
        )
        _positive(contrast=self.contrast, reach=self.reach, noise=self.noise)


@dataclass(frozen=True)
class CocaNetConfig:
    """COCA-Net for images of one size."""

    image_size: tuple[int, int]
    dim: int
    backbone: BackboneConfig
    levels: tuple[LevelConfig, ...]
    decoder: DecoderConfig
    heads: int = 4
    norm: NormScope = "node"
    anchors: AnchorRule = "compact"
    """Most compact first, or drawn at random (RAS)."""
    dynamic: DynamicSlots | None = None
    feedback: FeedbackConfig = field(default_factory=FeedbackConfig)
    kind: Literal["coca-net"] = "coca-net"

    def __post_init__(self) -> None:
        _positive(image_height=self.image_size[0], image_width=self.image_size[1], dim=self.dim, heads=self.heads)
        if not self.levels:
            raise ValueError("a hierarchy needs at least one level")
        if self.decoder.output_size != self.image_size:
            raise ValueError(
                f"the decoder makes {_by(self.decoder.output_size)} images; expected {_by(self.image_size)}"
            )
        grid, nodes = self.image_size, 1
        for number, level in enumerate(self.levels, 1):
            nodes = self._check_level(number, level, nodes)
            grid = grid_after(grid, level.window)
        if grid != (1, 1):
            raise ValueError(
                f"the windows of {len(self.levels)} levels leave {_by(grid)} cells of a {_by(self.image_size)} image; "
                "expected the last level to have one window"
            )

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
    def slots(self) -> int:
        """Slots per image in training."""
        return self.levels[-1].clusters


ModelConfig = CocaNetConfig | SlotAttentionConfig | InvSaConfig | BoQsaConfig | GenesisV2Config


@dataclass(frozen=True)
class DataConfig:
    """The data set a preset is for."""

    name: str
    background_labels: int = 1
    max_objects: int | None = None
    """Most objects in a scene, where scenes are made."""
    resize: bool = False
    """Whether images of another size are resized to the model's, or refused."""


@dataclass(frozen=True)
class TrainConfig:
    """Optimisation, as the paper has it by default."""

    steps: int = 500_000
    batch_size: int = 64
    learning_rate: float = 3e-4
    weight_decay: float = 1e-5
    warmup_steps: int = 10_000
    decay: Literal["exponential", "cosine", "constant"] = "exponential"
    half_life: int = 100_000
    """Steps in which exponential decay halves the learning rate."""
    clip_norm: float | None = None
    crop_padding: int = 3
    """Pixels of edge padding before the random crop; 0 for none."""
    mask_guidance: float = 0.0
    """Weight of the decoder's masks following the encoder's; the paper has none."""
    guided_from: float = 0.4
    """Share of a run after which guidance sets in; it grows over a fifth of the run."""
    colour_code: float = 0.0
    """Weight of what it costs to describe an image by one colour for each encoder mask; the paper has none."""
    colour_entropy: float = 0.01
    """Price of a nat of a pixel's mask in it, in squared colour: less than an object's own colour saves, more than
    noise does. With `colour_noise`, in nats of colour."""
    colour_noise: float = 0.0
    """With it, the code's error counts in nats, as its logarithm, and errors below this much squared colour save
    nothing; without it, as it is."""
    chroma: float = 1.0
    """Weight of what is not grey in the colours that the code describes."""
    light: float = 1.0
    """Weight of brightness in them."""
    texture: float = 0.0
    """Weight of how much brightness varies around a pixel, as further colours of it."""
    encoder_first: float = 0.0
    """Share of a run in which the encoder learns alone, by the colour code, before the decoder joins."""
    decoder_apart: bool = False
    """Whether reconstruction teaches only the decoder and how slots are pooled, and the colour code alone teaches what
    is found: a decoder that begins late would first undo what the encoder has learned."""

    def __post_init__(self) -> None:
        _positive(
            steps=self.steps,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            half_life=self.half_life,
        )
        _not_negative(
            weight_decay=self.weight_decay,
            warmup_steps=self.warmup_steps,
            crop_padding=self.crop_padding,
            mask_guidance=self.mask_guidance,
            guided_from=self.guided_from,
            colour_code=self.colour_code,
            colour_entropy=self.colour_entropy,
            colour_noise=self.colour_noise,
            chroma=self.chroma,
            light=self.light,
            texture=self.texture,
            encoder_first=self.encoder_first,
        )
        if self.encoder_first > 1:
            raise ValueError(f"encoder_first is a share of the run; expected at most 1, got {self.encoder_first}")
        if (self.encoder_first or self.decoder_apart) and not self.colour_code:
            raise ValueError(
                f"an encoder that learns alone needs the colour code to learn by; got encoder_first="
                f"{self.encoder_first}, decoder_apart={self.decoder_apart} and colour_code=0"
            )
        if self.clip_norm is not None:
            _positive(clip_norm=self.clip_norm)

    def stretched(self, steps: int) -> TrainConfig:
        """The same course in more or fewer steps: warm-up and half-life keep their share of the run."""
        share = steps / self.steps
        return replace(
            self,
            steps=steps,
            warmup_steps=round(self.warmup_steps * share),
            half_life=max(1, round(self.half_life * share)),
        )


@dataclass(frozen=True)
class RunConfig:
    """How a run is carried out, whatever it trains."""

    seed: int = 0
    """Of the weights, the order of the images and their crops."""
    minutes: float | None = None
    """Stop after so much time instead of after so many steps; warm-up and decay are fitted to it."""
    checkpoint_every: int = 500
    """Steps between checkpoints; a killed run loses no more."""
    validate_every: int | None = None
    """Steps between validations; a twentieth of the run if left out."""
    log_every: int = 10
    """Steps between lines of metrics.jsonl."""
    precision: Precision = "32"
    """32-bit, or bfloat16 where it is safe."""
    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """What to train on; the fastest there is if left out."""
    devices: int = 1
    """Processes or GPUs on this machine; the batch is divided among all of them."""
    nodes: int = 1
    """Machines, started with torchrun."""
    tensorboard: bool = False
    """Write TensorBoard event files too."""

    def __post_init__(self) -> None:
        _not_negative(seed=self.seed)
        _positive(
            checkpoint_every=self.checkpoint_every, log_every=self.log_every, devices=self.devices, nodes=self.nodes
        )
        if self.minutes is not None:
            _positive(minutes=self.minutes)
        if self.validate_every is not None:
            _positive(validate_every=self.validate_every)


@dataclass(frozen=True)
class Preset:
    """A complete published run: model, data and training."""

    name: str
    model: ModelConfig
    data: DataConfig
    train: TrainConfig = field(default_factory=TrainConfig)

    def __post_init__(self) -> None:
        train = self.train
        if (train.encoder_first or train.decoder_apart) and not isinstance(self.model, CocaNetConfig):
            raise ValueError(
                f"only the encoder of a coca-net learns without its decoder; got encoder_first={train.encoder_first} "
                f"and decoder_apart={train.decoder_apart} for a {self.model.kind}"
            )


def _positive(**values: int | float) -> None:
    for name, value in values.items():
        if value <= 0:
            raise ValueError(f"{name} must be positive; got {value}")


def _not_negative(**values: int | float) -> None:
    for name, value in values.items():
        if value < 0:
            raise ValueError(f"{name} must be 0 or more; got {value}")


def _by(size: tuple[int, int]) -> str:
    return f"{size[0]}×{size[1]}"
