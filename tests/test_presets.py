"""The presets against the paper's three tables, typed in again column by column."""

import json
import re
from ast import literal_eval
from dataclasses import replace

import pytest

from cocanet import presets
from cocanet.config import (
    Adam,
    BackboneConfig,
    CocaNetConfig,
    ConvConfig,
    DataConfig,
    DecoderConfig,
    DynamicSlots,
    LevelConfig,
    Muon,
    Preset,
    Reconstruction,
    Schedule,
    Stage,
    TrainConfig,
)
from cocanet.config.serialization import to_dict
from cocanet.presets.baselines import BASELINES

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
    stages=(
        Stage(
            share=1.0,
            image_size=None,
            trains=(),
            losses=(Reconstruction(weight=1.0, pixels=1.0),),
            optimiser=Adam(learning_rate=3e-4, weight_decay=1e-5, token_learning_rate=None),
            schedule=Schedule(warmup=10_000 / 500_000, decay="exponential", half_life=100_000 / 500_000),
        ),
    ),
    clip_norm=None,
    crop_padding=3,
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
    """Settings beyond the paper are off."""
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
            backbone=BackboneConfig(channels=channels, kernel=kernel, input_gamma=1.0, strides=(1,)),
            levels=tuple(
                LevelConfig(
                    window=(window, window),
                    clusters=clusters,
                    temperature=temperature,
                    depth=depth,
                    candidate_stride=1,
                    **reach_of(window, queries, keys, number == len(levels)),
                )
                for number, (window, temperature, clusters, depth, queries, keys) in enumerate(levels, 1)
            ),
            decoder=DecoderConfig(
                broadcast=(broadcast, broadcast),
                layers=tuple(ConvConfig(*layer) for layer in zip(*layers, strict=True)),
                octaves=0,
                frame="image",
            ),
            heads=4,
            norm="node",
            anchors="compact",
            dynamic=None,
            inertia="parallel-axis",
        ),
        data=DATA[name],
        train=TRAINING,
    )


CURRICULA = {
    32: ((0.9, 32), (0.1, 32)),
    64: ((0.9 * 8 / 9, 32), (0.9 / 9, 64), (0.1, 64)),
    128: ((0.9 * 64 / 73, 32), (0.9 * 8 / 73, 64), (0.9 / 73, 128), (0.1, 128)),
}
"""Share of the run and side of the images of each stage, by the side of the preset's images; the decoder's last."""


def fast_training(whole: int) -> TrainConfig:
    def stage(number: int, share: float, side: int) -> Stage:
        first = number == 0
        return Stage(
            share=share,
            image_size=(side, side),
            trains=("decoder",) if number == len(CURRICULA[whole]) - 1 else (),
            losses=(Reconstruction(weight=1.0, pixels=0.25 if first else 0.125),),
            optimiser=Muon(0.02, 1e-3, 0.95) if first else Muon(0.01, 5e-4, 0.95),
            schedule=Schedule(warmup=0.03, decay="cosine"),
        )

    stages = tuple(stage(number, *each) for number, each in enumerate(CURRICULA[whole]))
    return TrainConfig(steps=10_000, batch_size=8, stages=stages, clip_norm=1.0, crop_padding=0)


def as_plain(train: TrainConfig) -> list:
    """Shares rounded, so that sums of thirds compare."""
    return [replace(train, stages=(Stage(),)), *(replace(stage, share=round(stage.share, 9)) for stage in train.stages)]


@pytest.mark.parametrize("name", ALL)
def test_the_fast_recipe_is_one_for_all_data_sets(name):
    """What it does not name is the paper's."""
    paper, fast = presets.find(name), presets.find(f"{name}-fast")
    first, *between, last = paper.model.levels
    levels = [replace(first, depth=1), *between, replace(last, temperature=2.0)]
    if name == "clevrtex":
        levels[:2] = [replace(level, attention="window", kernel=None) for level in levels[:2]]
    pointwise = ConvConfig(channels=64, kernel=1)
    assert fast.model == replace(
        paper.model,
        backbone=replace(paper.model.backbone, kernel=1, input_gamma=0.5),
        levels=tuple(levels),
        decoder=DecoderConfig(
            paper.model.image_size, (*[pointwise] * 4, ConvConfig(4, 1)), octaves=4, frame="slot", prior_from=0.9
        ),
    )
    assert as_plain(fast.train) == as_plain(fast_training(paper.model.image_size[0]))
    assert (fast.name, fast.data) == (f"{name}-fast", paper.data)


def test_the_fast_recipe_does_not_depend_on_the_name_of_the_data():
    own = [replace(presets.objects_room(), name="auto", data=DataConfig(name)) for name in ("tetrominoes", "photos")]
    assert presets.with_fast_recipe(own[0]).train == presets.with_fast_recipe(own[1]).train


def test_no_preset_refines_masks():
    """Refinement is no setting of a preset, of a model or of a training: it is requested where masks are predicted."""
    for name in [*presets.PRESETS, *presets.PHOTOGRAPHS, *BASELINES, *(f"{name}-fast" for name in presets.PRESETS)]:
        assert "refine" not in json.dumps(to_dict(presets.find(name))), name


def test_variants_change_what_they_say_and_nothing_else():
    plain = presets.objects_room()
    varied = {suffix: presets.find(f"objects-room-{suffix}") for suffix in ("ras", "dyna", "dilated")}
    model = plain.model
    assert varied["ras"].model == replace(model, anchors="random")
    assert varied["dyna"].model == replace(model, dynamic=DynamicSlots(scope_threshold=0.025, max_slots=11))
    assert varied["dilated"].model == replace(
        model, levels=tuple(replace(level, candidate_stride=2) for level in model.levels)
    )
    for suffix, preset in varied.items():
        assert (preset.name, preset.data, preset.train) == (f"objects-room-{suffix}", plain.data, plain.train)


def test_variants_learn_by_the_fast_recipe_of_the_run_they_vary():
    for name in presets.PRESETS:
        fast = presets.find(f"{name}-fast")
        for suffix in ("ras", "dyna", "dilated"):
            for words in (f"{name}-{suffix}-fast", f"{name}-fast-{suffix}"):
                varied = presets.find(words)
                assert varied.train == fast.train, words
                assert varied.name == words


def test_names_that_are_no_presets_are_refused():
    for wrong in ("clevr7", "clevr6-quick", "inv-sa-birds", "bo-qsa-clevr6-fast"):
        with pytest.raises(ValueError, match=wrong.split("-")[0]):
            presets.find(wrong)
