"""The presets against the paper's three tables, typed in again column by column."""

from dataclasses import replace

import pytest

from cocanet import presets
from cocanet.config import DataConfig

# Table 4: channels, MLP out channels, kernel
BACKBONE = {
    "tetrominoes": (32, 64, 3),
    "multi-dsprites": (64, 64, 3),
    "shapestacks": (64, 64, 3),
    "objects-room": (64, 64, 3),
    "clevr6": (96, 96, 5),
    "clevrtex": (128, 96, 5),
}
# Table 5: resolution, broadcast resolution, channels, kernels, strides
DECODER = {
    "tetrominoes": (32, 32, [32, 32, 32, 4], [5, 5, 5, 3], [1, 1, 1, 1]),
    "multi-dsprites": (64, 64, [32, 32, 32, 4], [5, 5, 5, 3], [1, 1, 1, 1]),
    "shapestacks": (64, 64, [32, 32, 32, 4], [5, 5, 5, 3], [1, 1, 1, 1]),
    "objects-room": (64, 64, [32, 32, 32, 4], [5, 5, 5, 3], [1, 1, 1, 1]),
    "clevr6": (128, 8, [48, 48, 48, 48, 48, 4], [5, 5, 5, 5, 5, 3], [2, 2, 2, 2, 1, 1]),
    "clevrtex": (128, 8, [64, 64, 64, 64, 64, 4], [5, 5, 5, 5, 5, 3], [2, 2, 2, 2, 1, 1]),
}
# Table 6: d, windows, τ, k, number of ViT-22B layers, K kernels
HIERARCHY = {
    "tetrominoes": (64, [4, 8], [1.0, 2.0], [3, 4], [2, 2], [4, 8]),
    "multi-dsprites": (64, [8, 8], [1.0, 1.25], [4, 6], [3, 3], [8, 8]),
    "shapestacks": (64, [8, 8], [0.75, 1.0], [4, 7], [3, 3], [8, 8]),
    "objects-room": (64, [8, 8], [1.0, 1.5], [4, 7], [3, 3], [8, 8]),
    "clevr6": (96, [4, 4, 8], [1.0, 0.5, 1.0], [2, 4, 7], [1, 2, 3], [4, 4, 8]),
    "clevrtex": (96, [4, 4, 8], [2.0, 1.0, 0.5], [2, 4, 11], [1, 2, 5], [3, 5, 8]),
}
ALL = sorted(presets.PRESETS)


def test_all_six_are_there():
    assert set(ALL) == set(BACKBONE) == set(DECODER) == set(HIERARCHY)


@pytest.mark.parametrize("name", ALL)
def test_backbone(name):
    model = presets.PRESETS[name]().model
    assert (model.backbone.channels, model.dim, model.backbone.kernel) == BACKBONE[name]


@pytest.mark.parametrize("name", ALL)
def test_decoder(name):
    model = presets.PRESETS[name]().model
    side, broadcast, channels, kernels, strides = DECODER[name]
    layers = model.decoder.layers
    assert model.image_size == (side, side)
    assert model.decoder.broadcast == (broadcast, broadcast)
    assert [layer.channels for layer in layers] == channels
    assert [layer.kernel for layer in layers] == kernels
    assert [layer.stride for layer in layers] == strides
    assert model.decoder.octaves == 0


@pytest.mark.parametrize("name", ALL)
def test_hierarchy(name):
    model = presets.PRESETS[name]().model
    dim, windows, temperatures, clusters, depths, reach = HIERARCHY[name]
    assert model.dim == dim
    assert [level.window for level in model.levels] == [(side, side) for side in windows]
    assert [level.temperature for level in model.levels] == temperatures
    assert [level.clusters for level in model.levels] == clusters
    assert [level.depth for level in model.levels] == depths
    # A kernel as large as the window is attention within it; the last level's covers the whole grid.
    assert [level.kernel or level.window[0] for level in model.levels] == reach
    if name == "clevrtex":
        assert [level.attention for level in model.levels] == ["neighbourhood", "neighbourhood", "global"]


@pytest.mark.parametrize("name", ALL)
def test_training(name):
    train = presets.PRESETS[name]().train
    assert (train.steps, train.batch_size, train.learning_rate, train.weight_decay) == (500_000, 64, 3e-4, 1e-5)
    assert (train.crop_padding, train.decay) == (3, "exponential")
    assert (train.mask_guidance, train.colour_code) == (0, 0)


@pytest.mark.parametrize("name", ALL)
def test_quick_recipe(name):
    """As docs/train.md has it; what it does not name is the paper's."""
    paper, quick = presets.PRESETS[name](), presets.find(f"{name}-cpu")
    side = paper.model.image_size[0]
    assert (quick.model.backbone.kernel, quick.model.backbone.gamma) == (1, 0.5)
    assert (quick.model.decoder.frame, quick.model.decoder.octaves) == ("slot", 4 if side == 32 else 5)
    assert [level.sharpen for level in quick.model.levels][-1] == 2
    assert (paper.model.feedback.rounds, quick.model.feedback.rounds) == (0, 3 if name == "multi-dsprites" else 8)
    assert (paper.model.decoder.prior, quick.model.decoder.prior) == (0, 0 if name == "tetrominoes" else 1)
    by_colour = (0.2, 1e-3, 0.25, 0.2, 0.2)
    train = quick.train
    assert (train.colour_code, train.colour_noise, train.encoder_first, train.mask_guidance, train.guided_from) == (
        (0, 0, 0, 0.05, 0.4) if name == "tetrominoes" else by_colour
    )
    assert train.batch_size == (4 if side == 128 else 8)
    kernels = {32: [5, 5, 5, 3], 64: [1] * 5, 128: [1, 1, 1, 3, 3]}
    assert [layer.kernel for layer in quick.model.decoder.layers] == kernels[side]
    assert quick.model.decoder.broadcast == (min(side, 64),) * 2
    assert {level.attention for level in quick.model.levels} <= {"window", "global"}
    if side == 64:
        assert (quick.model.levels[0].depth, quick.model.levels[-1].temperature) == (1, 2.5)
    else:
        assert [level.temperature for level in quick.model.levels] == [
            level.temperature for level in paper.model.levels
        ]
    assert [(level.window, level.clusters) for level in quick.model.levels] == [
        (level.window, level.clusters) for level in paper.model.levels
    ]
    assert quick.data == paper.data


def test_a_folder_called_like_a_data_set_has_no_recipe_of_its_own():
    own = [replace(presets.objects_room(), name="auto", data=DataConfig(name)) for name in ("tetrominoes", "photos")]
    assert presets.with_quick_recipe(own[0]).train == presets.with_quick_recipe(own[1]).train


def test_variants_change_what_they_say_and_nothing_else():
    plain = presets.objects_room()
    assert presets.with_random_anchors(plain).model.anchors == "random"
    assert presets.with_dynamic_slots(plain).model.dynamic is not None
    assert {level.candidate_stride for level in presets.with_dilated_candidates(plain, 2).model.levels} == {2}
    assert presets.with_fourier_positions(plain).model.decoder.octaves == 4
    assert presets.with_random_anchors(plain).train == plain.train


def test_variants_learn_by_the_quick_recipe_of_the_run_they_vary():
    for name in presets.PRESETS:
        quick = presets.find(f"{name}-cpu")
        for suffix in ("ras", "dyna", "dilated"):
            for words in (f"{name}-{suffix}-cpu", f"{name}-cpu-{suffix}"):
                varied = presets.find(words)
                assert varied.train == quick.train, words
                assert varied.name == words
