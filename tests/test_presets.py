"""The presets against the paper's three tables, typed in again column by column."""

import re
from ast import literal_eval
from dataclasses import replace

import pytest

from cocanet import presets
from cocanet.config import (
    BackboneConfig,
    CocaNetConfig,
    ConvConfig,
    DataConfig,
    DecoderConfig,
    FeedbackConfig,
    LevelConfig,
    Preset,
    TrainConfig,
)

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
# Table 6: d, windows, τ, k, number of ViT-22B layers, Q kernels, K kernels
HIERARCHY = {
    "tetrominoes": (64, [4, 8], [1.0, 2.0], [3, 4], [2, 2], [4, 8], [4, 8]),
    "multi-dsprites": (64, [8, 8], [1.0, 1.25], [4, 6], [3, 3], [8, 8], [8, 8]),
    "shapestacks": (64, [8, 8], [0.75, 1.0], [4, 7], [3, 3], [8, 8], [8, 8]),
    "objects-room": (64, [8, 8], [1.0, 1.5], [4, 7], [3, 3], [8, 8], [8, 8]),
    "clevr6": (96, [4, 4, 8], [1.0, 0.5, 1.0], [2, 4, 7], [1, 2, 3], [4, 4, 8], [4, 4, 8]),
    "clevrtex": (96, [4, 4, 8], [2.0, 1.0, 0.5], [2, 4, 11], [1, 2, 5], [1, 1, 1], [3, 5, 8]),
}
# Floor, sky and two walls of ObjectsRoom are background; CLEVR6 has six objects at most
DATA = {name: DataConfig(name, background_labels=1, max_objects=None, resize=False) for name in BACKBONE} | {
    "objects-room": DataConfig("objects-room", background_labels=4, max_objects=None, resize=False),
    "clevr6": DataConfig("clevr", background_labels=1, max_objects=6, resize=False),
}
# The supplement's "Implementation Details"; warm-up and half-life are Slot Attention's, to which it refers
TRAINING = TrainConfig(
    steps=500_000,
    batch_size=64,
    learning_rate=3e-4,
    weight_decay=1e-5,
    warmup_steps=10_000,
    decay="exponential",
    half_life=100_000,
    clip_norm=None,
    crop_padding=3,
    mask_guidance=0.0,
    colour_code=0.0,
    encoder_first=0.0,
    decoder_apart=False,
    encoder_rests=False,
)
ALL = sorted(presets.PRESETS)
PRINTED = {
    "Tetrominoes": "tetrominoes",
    "Multi-dSprites": "multi-dsprites",
    "ShapeStacks": "shapestacks",
    "ObjectsRoom": "objects-room",
    "CLEVR6": "clevr6",
    "CLEVRTex": "clevrtex",
}


def test_all_six_are_there():
    assert set(ALL) == set(BACKBONE) == set(DECODER) == set(HIERARCHY)


def rows_of(tex: str, label: str) -> dict[str, list]:
    """The cells of a table by preset: numbers, and lists of them; 5 for 5×5."""
    table = tex[tex.index(rf"\label{{{label}}}") :]
    table = table[: table.index(r"\end{tabular}")]
    found = {}
    for line in table.splitlines():
        name, *cells = re.findall(r"\\multicolumn\{1\}\{c\}\{\$?(.*?)\$?\}(?=\s*&|\s*\\\\)", line) or [""]
        if name in PRINTED:
            found[PRINTED[name]] = [literal_eval(re.sub(r"(\d+)\\times\1\b", r"\1", cell)) for cell in cells]
    return found


def test_the_tables_are_typed_in_as_printed(tex):
    backbone, decoder, hierarchy = (
        rows_of(tex, f"tbl:hyperparameter_{part}") for part in ("backbone", "sbd", "cocanet")
    )
    assert list(backbone) == list(decoder) == list(hierarchy) == list(BACKBONE)
    for name in BACKBONE:
        channels, of_positions, out, kernel, stride, padding = backbone[name]
        assert (channels, out, kernel) == BACKBONE[name]
        assert (of_positions, stride, padding) == (channels, 1, kernel // 2)
        *typed, paddings, output_paddings = decoder[name]
        assert tuple(typed) == DECODER[name]
        assert paddings == [kernel // 2 for kernel in typed[3]]
        assert output_paddings == [stride - 1 for stride in typed[4]]
        levels, dims, windows, temperatures, clusters, depths, queries, _, _, keys, _, _ = hierarchy[name]
        dim, sides, *others = HIERARCHY[name]
        assert dims == [dim] * levels
        assert windows == [[side, side] for side in sides]
        assert others == [temperatures, clusters, depths, queries, keys]


def reach_of(window: int, queries: int, keys: int, last: bool) -> dict:
    """Kernels of queries and keys as large as the window are attention within it; the last level's keys are all."""
    if queries == keys == window:
        return {"attention": "window", "kernel": None}
    return {"attention": "global", "kernel": None} if last else {"attention": "neighbourhood", "kernel": keys}


@pytest.mark.parametrize("name", ALL)
def test_a_preset_is_the_papers_and_nothing_else(name):
    """Also in what the paper has none of: sharpening, feedback, priors and a code of colours are all off."""
    channels, out, kernel = BACKBONE[name]
    side, broadcast, *layers = DECODER[name]
    dim, *columns = HIERARCHY[name]
    assert out == dim
    levels = list(zip(*columns, strict=True))
    assert presets.find(name) == Preset(
        name=name,
        model=CocaNetConfig(
            image_size=(side, side),
            dim=dim,
            backbone=BackboneConfig(channels=channels, kernel=kernel, gamma=1.0),
            levels=tuple(
                LevelConfig(
                    window=(window, window),
                    clusters=clusters,
                    temperature=temperature,
                    depth=depth,
                    candidate_stride=1,
                    sharpen=1.0,
                    **reach_of(window, queries, keys, number == len(levels)),
                )
                for number, (window, temperature, clusters, depth, queries, keys) in enumerate(levels, 1)
            ),
            decoder=DecoderConfig(
                broadcast=(broadcast, broadcast),
                layers=tuple(ConvConfig(*layer) for layer in zip(*layers, strict=True)),
                octaves=0,
                frame="image",
                prior=0.0,
            ),
            heads=4,
            norm="node",
            anchors="compact",
            dynamic=None,
            feedback=FeedbackConfig(rounds=0),
        ),
        data=DATA[name],
        train=TRAINING,
    )


# What the encoder of each quick preset learns by: price of entropy, chroma, light, texture
COLOURS = {
    "multi-dsprites": (0.3, 1.0, 1.0, 0.0),
    "shapestacks": (1.0, 4.0, 0.06, 0.25),
    "objects-room": (0.3, 1.5, 0.25, 0.5),
    "clevr6": (0.5, 1.5, 0.25, 0.5),
    "clevrtex": (0.25, 1.5, 0.25, 0.5),
}

RESTING = {"multi-dsprites", "shapestacks", "objects-room", "clevrtex"}
"""Encoders that stay as they are once they have learned alone."""


def quick_training(name: str) -> TrainConfig:
    plain = replace(
        TRAINING,
        steps=20_000,
        batch_size=4 if name in ("clevr6", "clevrtex") else 8,
        weight_decay=0.0,
        decay="cosine",
        clip_norm=1.0,
        crop_padding=0,
    )
    if name == "tetrominoes":
        return replace(
            plain, learning_rate=1.5e-3, warmup_steps=1_500, mask_guidance=0.05, guided_from=0.4, feedback=False
        )
    entropy, chroma, light, texture = COLOURS[name]
    return replace(
        plain,
        learning_rate=1e-3,
        warmup_steps=600,
        mask_guidance=0.2,
        guided_from=0.2,
        colour_code=0.2,
        colour_entropy=entropy,
        colour_noise=1e-3,
        chroma=chroma,
        light=light,
        texture=texture,
        encoder_first=0.15 if name == "clevrtex" else 0.25,
        decoder_apart=True,
        encoder_rests=name in RESTING,
    )


def quick_decoder(paper: CocaNetConfig) -> DecoderConfig:
    """Tetrominoes keep the paper's layers; others have pixels one by one, at 128 px at half the resolution."""
    side = paper.image_size[0]
    if side == 32:
        return replace(paper.decoder, octaves=4, frame="slot")
    pixelwise = ConvConfig(64, 1)
    layers = {
        64: (*[pixelwise] * 4, ConvConfig(4, 1)),
        128: (*[pixelwise] * 3, ConvConfig(32, 3, stride=2), ConvConfig(4, 3)),
    }
    return DecoderConfig((64, 64), layers[side], octaves=5, frame="slot", prior=1.0)


def quick_levels(paper: CocaNetConfig) -> tuple[LevelConfig, ...]:
    *below, last = paper.levels
    if paper.image_size[0] > 32:
        below = [replace(level, attention="window", kernel=None) for level in below]
        below[0] = replace(below[0], depth=1)
    if paper.image_size[0] == 64:
        last = replace(last, temperature=2.5)
    return (*below, replace(last, sharpen=2.0))


@pytest.mark.parametrize("name", ALL)
def test_quick_recipe(name):
    """As docs/train.md has it; what it does not name is the paper's. Of feedback's weights it names none."""
    paper, quick = presets.find(name), presets.find(f"{name}-cpu")
    feedback = quick.model.feedback
    assert (feedback.rounds, feedback.regroup) == (3 if name == "multi-dsprites" else 8, True)
    model = replace(
        paper.model,
        backbone=replace(paper.model.backbone, kernel=1, gamma=0.5),
        levels=quick_levels(paper.model),
        decoder=quick_decoder(paper.model),
        feedback=feedback,
    )
    assert quick == Preset(f"{name}-cpu", model, paper.data, quick_training(name))


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
