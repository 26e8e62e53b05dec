"""Every mistake names the value and what was expected."""

from dataclasses import replace

import pytest

from cocanet import presets
from cocanet.config import BackboneConfig, ConvConfig, DecoderConfig, DynamicSlots, LevelConfig, TrainConfig

MODEL = presets.tetrominoes().model
FIRST, LAST = MODEL.levels


def with_levels(*levels):
    return lambda: replace(MODEL, levels=levels)


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (with_levels(FIRST, replace(LAST, clusters=193)), "level 2 cannot make 193 clusters of 192 nodes"),
        (with_levels(replace(FIRST, clusters=17), LAST), "level 1 cannot make 17 clusters of 16 nodes"),
        (with_levels(FIRST, replace(LAST, window=(4, 4))), "leave 2×2 cells of a 32×32 grid"),
        (with_levels(replace(FIRST, window=(5, 5)), LAST), "32×32 cells does not divide into windows of 5×5"),
        (with_levels(), "at least one level"),
        (lambda: replace(MODEL, image_size=(64, 64)), "decoder makes 32×32 images; expected 64×64"),
        (with_levels(replace(FIRST, clusters=3, candidate_stride=4), LAST), "candidate stride of 4 leaves 1"),
        (lambda: replace(MODEL, dynamic=DynamicSlots(most=200)), "200 clusters of 192 nodes"),
        (lambda: DynamicSlots(stop_below=1.5), "between 0 and 1; got 1.5"),
        (lambda: LevelConfig((4, 4), 3, 1.0, 1, attention="neighbourhood"), "kernel goes with attention"),
        (lambda: LevelConfig((4, 4), 3, 1.0, 1, kernel=3), "kernel goes with attention"),
        (lambda: LevelConfig((4, 0), 3, 1.0, 1), "window_width must be positive; got 0"),
        (lambda: LevelConfig((4, 4), 3, 1.0, -1), "depth must be 0 or more; got -1"),
        (lambda: BackboneConfig(32, 4), "must be odd to keep the resolution; got 4"),
        (lambda: ConvConfig(32, 2), "must be odd to keep the resolution; got 2"),
        (lambda: DecoderConfig((8, 8), ()), "at least one layer"),
        (lambda: DecoderConfig((8, 8), (ConvConfig(32, 3),)), "must have 4 channels .* got 32"),
        (lambda: TrainConfig(steps=0), "steps must be positive; got 0"),
    ],
)  # fmt: skip
def test_mistakes_are_named(mistake, message):
    with pytest.raises(ValueError, match=message):
        mistake()
