"""How a model is trained, and how a run is carried out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from cocanet.config.checks import not_negative, positive

Precision = Literal["32", "bf16"]


@dataclass(frozen=True)
class TrainConfig:
    """Optimisation, as the paper has it by default."""

    steps: int = 500_000
    batch_size: int = 64
    learning_rate: float = 3e-4
    token_learning_rate: float | None = None
    """That of the autoencoder of a decoder by tokens, which has no warm-up; as of the rest if left out."""
    weight_decay: float = 1e-5
    warmup_steps: int = 10_000
    decay: Literal["exponential", "cosine", "constant"] = "exponential"
    half_life: int = 100_000
    """Steps in which exponential decay halves the learning rate."""
    clip_norm: float | None = None
    crop_padding: int = 3
    """Pixels of edge padding before the random crop; 0 for none."""
    reconstruction: float = 1.0
    """Weight of the model's own loss. That of a decoder by tokens is a sum over the image, thousands at first."""
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
    figure: float = 0.0
    """Weight of learning what feedback makes of a thing in the middle: for photographs of one thing each."""
    figure_spread: float = 0.4
    """How far the middle reaches: the deviation of a Gaussian blob, in half image sides."""
    figure_trust: float = 0.8
    """How much, from three fifths of the run on, feedback begins from the encoder's own masks instead of the middle;
    it does so not at all in the first fifth."""
    feedback: bool = True
    """Whether the model's feedback, if it has any, corrects masks in training too. Where reconstruction teaches the
    encoder, it would learn to leave its mistakes to feedback."""
    encoder_first: float = 0.0
    """Share of a run in which the encoder learns alone, by one of these codes, before the decoder joins."""
    decoder_apart: bool = False
    """Whether reconstruction teaches only the decoder and how slots are pooled, and the codes alone teach what is
    found: a decoder that begins late would first undo what the encoder has learned."""
    encoder_rests: bool = False
    """Whether the encoder, once it has learned alone, stays as it is: its learning rate falls to 0 before the decoder
    joins, which has a course of its own and learns from what is found at evaluation. Needs `decoder_apart`."""

    def __post_init__(self) -> None:
        positive(
            steps=self.steps,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            half_life=self.half_life,
        )
        not_negative(
            weight_decay=self.weight_decay,
            warmup_steps=self.warmup_steps,
            crop_padding=self.crop_padding,
            reconstruction=self.reconstruction,
            mask_guidance=self.mask_guidance,
            guided_from=self.guided_from,
            colour_code=self.colour_code,
            colour_entropy=self.colour_entropy,
            colour_noise=self.colour_noise,
            chroma=self.chroma,
            light=self.light,
            texture=self.texture,
            figure=self.figure,
            encoder_first=self.encoder_first,
        )
        positive(figure_spread=self.figure_spread)
        if not 0 <= self.figure_trust <= 1:
            raise ValueError(f"figure_trust must lie between 0 and 1; got {self.figure_trust}")
        if self.encoder_first > 1:
            raise ValueError(f"encoder_first is a share of the run; expected at most 1, got {self.encoder_first}")
        if (self.encoder_first or self.decoder_apart) and not (self.colour_code or self.figure):
            raise ValueError(
                f"an encoder that learns alone needs the colour code or a figure to learn by; got encoder_first="
                f"{self.encoder_first}, decoder_apart={self.decoder_apart}, colour_code=0 and figure=0"
            )
        if self.encoder_rests and not (self.encoder_first and self.decoder_apart):
            raise ValueError(
                "an encoder rests after it has learned alone, from a decoder apart; expected encoder_first above 0 and "
                f"decoder_apart=True, got {self.encoder_first} and {self.decoder_apart}"
            )
        if self.clip_norm is not None:
            positive(clip_norm=self.clip_norm)
        if self.token_learning_rate is not None:
            positive(token_learning_rate=self.token_learning_rate)

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
    """Seed of the weights, the order of the images and their crops."""
    minutes: float | None = None
    """Stop after this time instead of after a number of steps; warm-up and decay are fitted to it."""
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
    compile: bool = False
    """Compile the model first, which takes a minute or two and a C++ compiler: docs/train.md has where it pays."""
    tensorboard: bool = False
    """Write TensorBoard event files too."""

    def __post_init__(self) -> None:
        not_negative(seed=self.seed)
        positive(
            checkpoint_every=self.checkpoint_every, log_every=self.log_every, devices=self.devices, nodes=self.nodes
        )
        if self.minutes is not None:
            positive(minutes=self.minutes)
        if self.validate_every is not None:
            positive(validate_every=self.validate_every)
