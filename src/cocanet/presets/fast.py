"""The fast recipe, `-fast`: COCA-Net by reconstruction alone, in minutes on a CPU.

One recipe and one set of numbers for all data sets. Image size, windows, clusters and slots are those of the paper's
preset, and so are the temperatures of all levels but the last. Beyond the paper are

- a resolution curriculum: a run begins with images of about 32 pixels a side, and doubles them up to their full size;
- Muon for weight matrices;
- a slot-centric decoder: a slot is decoded about its own centre, and knows the shape of its mask. In the last stage it
  learns alone, and the encoder's masks are a prior of its masks;
- one temperature of the last level for all data sets;
- a pointwise backbone and decoder, one attention block in the first level, and a loss on a sample of the pixels.
"""

from __future__ import annotations

from dataclasses import replace

from cocanet.config import (
    BackboneConfig,
    CocaNetConfig,
    ConvConfig,
    DecoderConfig,
    LevelConfig,
    Muon,
    Preset,
    Reconstruction,
    Schedule,
    Stage,
    TrainConfig,
)
from cocanet.config.resolution import at_image_size
from cocanet.presets.variants import as_coca_net, broadcast_decoder

STEPS, BATCH = 10_000, 8
SMALLEST_SIDE = 32
"""Pixels of the longer side that a curriculum does not go below."""
SCHEDULE = Schedule(warmup=0.03, decay="cosine")
FIRST = Stage(
    losses=(Reconstruction(pixels=0.25),),
    optimiser=Muon(learning_rate=0.02, adam_learning_rate=1e-3),
    schedule=SCHEDULE,
)
LATER = replace(
    FIRST,
    losses=(Reconstruction(pixels=0.125),),
    optimiser=Muon(learning_rate=0.01, adam_learning_rate=5e-4),
)
FEWER = 8
"""A stage has this many times fewer steps than the one before. A step at twice the side costs four times as much, so
each stage takes half as long as the one before."""
TOP_TEMPERATURE = 2.0
"""Of the last level: the highest of the paper's. At a low one slots share every pixel: the decoder separates objects,
and the encoder's masks do not."""
DECODER_LAYERS = (*[ConvConfig(channels=64, kernel=1)] * 4, ConvConfig(channels=4, kernel=1))
OCTAVES = 4
DECODER_SHARE = 0.1
"""Share of the last stage, in which the decoder learns alone."""


def with_fast_recipe(preset: Preset) -> Preset:
    """The preset's model and data, trained by the fast recipe."""
    model = as_coca_net(preset)
    broadcast_decoder(model)
    assert isinstance(model.backbone, BackboneConfig), "a spatial broadcast decoder goes with pixels"
    decoder = DecoderConfig(
        model.image_size, DECODER_LAYERS, octaves=OCTAVES, frame="slot", prior_from=1 - DECODER_SHARE
    )
    backbone = replace(model.backbone, kernel=1, input_gamma=0.5)
    fast = replace(model, backbone=backbone, levels=_levels(model), decoder=decoder)
    train = TrainConfig(steps=STEPS, batch_size=BATCH, stages=curriculum(fast), clip_norm=1.0, crop_padding=0)
    return replace(preset, name=f"{preset.name}-fast", model=fast, train=train)


def curriculum(model: CocaNetConfig) -> tuple[Stage, ...]:
    """A stage for each image size, from the smallest to the model's own, and one for the decoder alone."""
    sizes = [model.image_size]
    while max(sizes[0]) >= 2 * SMALLEST_SIDE:
        half = sizes[0][0] // 2, sizes[0][1] // 2
        try:
            at_image_size(model, half)
        except ValueError:  # no window is left to halve
            break
        sizes.insert(0, half)
    weights = [FEWER**-number for number in range(len(sizes))]
    shares = [(1 - DECODER_SHARE) * weight / sum(weights) for weight in weights]
    stages = [
        replace(LATER if number else FIRST, share=share, image_size=size)
        for number, (share, size) in enumerate(zip(shares, sizes, strict=True))
    ]
    decoder = replace(LATER, share=DECODER_SHARE, image_size=model.image_size, trains=("decoder",))
    return (*stages, decoder)


def _levels(model: CocaNetConfig) -> tuple[LevelConfig, ...]:
    """One attention block in the first level, attention within windows, and clear masks of the last level."""
    first, *between, last = (
        replace(level, attention="window", kernel=None) if level.attention == "neighbourhood" else level
        for level in model.levels
    )
    return (replace(first, depth=1), *between, replace(last, temperature=TOP_TEMPERATURE))
