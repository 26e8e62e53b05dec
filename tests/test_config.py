"""Configurations: mistakes name the value and what was expected, and a model fits other image sizes."""

from dataclasses import replace

import pytest

from cocanet import presets
from cocanet.config import BackboneConfig, ConvConfig, DecoderConfig, DynamicSlots, LevelConfig, TrainConfig
from cocanet.config.resolution import at_image_size

MODEL = presets.tetrominoes().model
FIRST, LAST = MODEL.levels


def with_levels(*levels):
    return lambda: replace(MODEL, levels=levels)


MISTAKES = [
    (with_levels(FIRST, replace(LAST, clusters=193)), "level 2 cannot make 193 clusters of 192 nodes"),
    (with_levels(replace(FIRST, clusters=17), LAST), "level 1 cannot make 17 clusters of 16 nodes"),
    (with_levels(FIRST, replace(LAST, window=(4, 4))), "leave 2×2 cells of a 32×32 grid"),
    (with_levels(replace(FIRST, window=(5, 5)), LAST), "32×32 cells does not divide into windows of 5×5"),
    (with_levels(), "at least one level"),
    (lambda: replace(MODEL, image_size=(64, 64)), "decoder makes 32×32 images; expected 64×64"),
    (with_levels(replace(FIRST, clusters=3, candidate_stride=4), LAST), "candidate stride of 4 leaves 1"),
    (lambda: replace(MODEL, dynamic=DynamicSlots(max_slots=200)), "200 clusters of 192 nodes"),
    (lambda: DynamicSlots(scope_threshold=1.5), "between 0 and 1; got 1.5"),
    (lambda: LevelConfig((4, 4), 3, 1.0, 1, attention="neighbourhood"), "kernel goes with attention"),
    (lambda: LevelConfig((4, 4), 3, 1.0, 1, kernel=3), "kernel goes with attention"),
    (lambda: LevelConfig((4, 0), 3, 1.0, 1), "window_width must be positive; got 0"),
    (lambda: LevelConfig((4, 4), 3, 1.0, -1), "depth must be 0 or more; got -1"),
    (lambda: BackboneConfig(32, 4), "must be odd to keep the resolution; got 4"),
    (lambda: ConvConfig(32, 2), "must be odd to keep the resolution; got 2"),
    (lambda: DecoderConfig((8, 8), ()), "at least one layer"),
    (lambda: DecoderConfig((8, 8), (ConvConfig(32, 3),)), "must have 4 channels .* got 32"),
    (lambda: TrainConfig(steps=0), "steps must be positive; got 0"),
    (lambda: replace(MODEL, decoder=replace(MODEL.decoder, frame="slot")), "expected octaves of 1 or more, got 0"),
    (lambda: BackboneConfig(32, 3, strides=()), "at least one convolution"),
    (lambda: replace(MODEL, backbone=BackboneConfig(32, 3, strides=(3,))), "shrinks by 3, which does not divide 32×32"),
]  # fmt: skip


def test_mistakes_are_named():
    for mistake, message in MISTAKES:
        with pytest.raises(ValueError, match=message):
            mistake()


def windows_at(config, size):
    return [level.window for level in at_image_size(config, size).levels]


def test_windows_shrink_with_the_image():
    room, clevr = presets.objects_room().model, presets.clevr6().model
    assert windows_at(room, (32, 32)) == [(4, 4), (8, 8)]
    assert windows_at(clevr, (64, 64)) == [(4, 4), (2, 2), (8, 8)]
    assert windows_at(clevr, (32, 32)) == [(2, 2), (2, 2), (8, 8)]
    assert windows_at(room, (32, 64)) == [(4, 8), (8, 8)]
    assert at_image_size(room, (64, 64)) is room
    assert at_image_size(at_image_size(clevr, (64, 64)), (32, 32)) == at_image_size(clevr, (32, 32))


def test_the_stride_of_candidates_shrinks_with_its_window():
    dilated = presets.with_dilated_candidates(presets.clevr6()).model
    strides = [[level.candidate_stride for level in at_image_size(dilated, (side, side)).levels] for side in (64, 32)]
    assert strides == [[2, 1, 2], [1, 1, 2]]


def test_only_windows_and_sizes_change():
    full = presets.clevr6().model
    half = at_image_size(full, (64, 64))
    assert half.decoder == replace(full.decoder, broadcast=(4, 4))
    restored = replace(half, image_size=full.image_size, levels=full.levels, decoder=full.decoder)
    assert restored == full
    for small, large in zip(half.levels, full.levels, strict=True):
        assert replace(small, window=large.window) == large


@pytest.mark.parametrize(
    ("name", "size", "message"),
    [
        ("objects-room", (48, 48), "an image of 64 pixels a side cannot be halved to 48×48"),
        ("objects-room", (128, 128), "cannot be halved to 128×128"),
        ("objects-room", (0, 64), "cannot be halved to 0×64"),
        ("objects-room", (8, 8), "too small for images of 8×8"),
        ("clevr6", (16, 16), "too small for images of 16×16"),
        ("birds", (64, 64), "only a model of pixels with a spatial broadcast decoder"),
    ],
)
def test_sizes_that_a_model_cannot_have(name, size, message):
    with pytest.raises(ValueError, match=message):
        at_image_size(presets.find(name).model, size)
