"""The baselines' presets against the architectures, typed in again."""

from __future__ import annotations

import pytest
import torch

from cocanet import presets
from cocanet.config import Adam, Stage
from cocanet.config.baselines import GenesisV2Config
from cocanet.models.baselines.genesis_v2 import GenesisV2
from cocanet.presets.baselines import BASELINES, genesis_v2, slot_attention
from cocanet.train.optimiser import learning_rate_factor
from tests.models.baselines import baselines

SIZES = {
    "tetrominoes": (32, 4),
    "multi-dsprites": (64, 6),
    "objects-room": (64, 7),
    "shapestacks": (64, 7),
    "clevr6": (128, 7),
    "clevrtex": (128, 11),
}
KINDS = ("slot-attention", "inv-sa", "bo-qsa")
# side, slots, data, background labels, most objects
GENESIS = {
    "tetrominoes": (32, 4, "tetrominoes", 1, None),
    "multi-dsprites": (64, 6, "multi-dsprites", 1, None),
    "objects-room": (64, 7, "objects-room", 4, None),
    "shapestacks": (64, 7, "shapestacks", 1, None),
    "clevr6": (128, 7, "clevr", 1, 6),
    "clevrtex": (128, 11, "clevrtex", 1, None),
}


def conv(inputs: int, outputs: int, kernel: int) -> int:
    return inputs * outputs * kernel**2 + outputs


def dense(inputs: int, outputs: int) -> int:
    return (inputs + 1) * outputs


def update(dim: int = 64, hidden: int = 128) -> int:
    """GRU with two biases a gate, layer normalisation, MLP."""
    return 3 * (2 * dim * dim + 2 * dim) + 2 * dim + dense(dim, hidden) + dense(hidden, dim)


def encoder(channels: int) -> int:
    return conv(3, channels, 5) + 3 * conv(channels, channels, 5)


def decoder(channels: int, layers: int) -> int:
    return dense(4, 64) + conv(64, channels, 5) + (layers - 1) * conv(channels, channels, 5) + conv(channels, 4, 3)


def parameters(kind: str, size: int, slots: int) -> int:
    if kind == "slot-attention":
        channels, layers = (64, 5) if size == 128 else (32, 3)
        features = dense(4, channels) + 2 * channels + 2 * dense(channels, channels)
        attention = 2 * channels + 2 * 64 + 64 * 64 + 2 * channels * 64
        return encoder(channels) + features + 2 * 64 + attention + update() + decoder(channels, layers)
    if kind == "bo-qsa":
        channels, layers = (32, 3) if size == 32 else (64, 5)
        features = dense(4, channels) + 2 * channels + dense(channels, 128) + dense(128, 64)
        attention = 2 * 64 + 2 * 64 + 3 * 64 * 64
        return encoder(channels) + features + slots * 64 + attention + update() + decoder(channels, layers)
    attention = 2 * 64 + 2 * 64 + 3 * 64 * 64 + dense(2, 64) + 2 * 64 + dense(64, 128) + dense(128, 64)
    if size == 32:
        decoder_weights = dense(2, 64) + dense(64, 256) + 5 * dense(256, 256) + dense(256, 4)
    else:
        decoder_weights = dense(2, 64) + 5 * conv(64, 64, 5) + dense(64, 1) + dense(64, 3)
    return encoder(64) + slots * 64 + attention + update() + decoder_weights


def test_every_baseline_has_every_data_set():
    kinds = (*KINDS, "genesis-v2")
    assert set(BASELINES) == {f"{kind}-{data_set}" for kind in kinds for data_set in SIZES}


@pytest.mark.parametrize("kind", KINDS)
def test_size_slots_data_and_parameters(kind):
    for data_set, (side, slots) in SIZES.items():
        baseline = BASELINES[f"{kind}-{data_set}"]()
        assert baseline.name == f"{kind}-{data_set}"
        assert baseline.model.kind == kind
        assert baseline.model.image_size == (side, side)
        assert baseline.model.slots == slots
        assert baseline.model.iterations == 3
        assert baseline.data == presets.PRESETS[data_set]().data
        with torch.device("meta"):
            model = baselines.CLASSES[kind](baseline.model)
        assert sum(parameter.numel() for parameter in model.parameters()) == parameters(kind, side, slots)


def test_slot_attention_is_as_large_as_published():
    assert parameters("slot-attention", 32, 4) == parameters("slot-attention", 64, 7) == 235_812


@pytest.mark.parametrize(
    ("kind", "grids"), [("slot-attention", (32, 64, 128)), ("inv-sa", (32, 16, 16)), ("bo-qsa", (32, 64, 64))]
)
def test_features_have_the_published_resolution(kind, grids):
    for data_set, (side, _) in SIZES.items():
        cells = dict(zip((32, 64, 128), grids, strict=True))[side]
        assert BASELINES[f"{kind}-{data_set}"]().model.grid == (cells, cells)


@pytest.mark.parametrize(
    ("kind", "layers"),
    [
        ("slot-attention", {32: ("1111", 32, "111"), 64: ("1111", 64, "111"), 128: ("1111", 8, "22221")}),
        ("inv-sa", {32: ("1111", 32, "111111"), 64: ("2211", 16, "22111"), 128: ("2221", 16, "22211")}),
        ("bo-qsa", {32: ("1111", 32, "111"), 64: ("1111", 8, "22211"), 128: ("2111", 8, "22221")}),
    ],
)
def test_strides(kind, layers):
    for data_set, (side, _) in SIZES.items():
        model = BASELINES[f"{kind}-{data_set}"]().model
        encoder, broadcast, decoder = layers[side]
        assert model.encoder_strides == tuple(map(int, encoder))
        assert model.broadcast == (broadcast, broadcast)
        assert model.decoder_strides == tuple(map(int, decoder))


def test_bo_qsa_drops_paths_and_anneals_noise_as_its_authors_do():
    for data_set in SIZES:
        model = BASELINES[f"bo-qsa-{data_set}"]().model
        assert (model.drop_path, model.noisy_share * 250_000) == (0.2, 30_000)


def test_only_inv_sa_on_tetrominoes_leaves_scale_out():
    units = {data_set: BASELINES[f"inv-sa-{data_set}"]().model.scale_unit for data_set in SIZES}
    assert units == dict.fromkeys(SIZES, 5.0) | {"tetrominoes": None}


def test_training():
    for data_set in SIZES:
        found = {kind: BASELINES[f"{kind}-{data_set}"]().train for kind in KINDS}
        steps, warmup = (20_000, 5_000) if data_set == "tetrominoes" else (500_000, 10_000)
        # steps, batch, warm-up, largest gradient, decay, half-life
        expected = {
            "slot-attention": (500_000, 64, 10_000, None, "exponential", 100_000),
            "inv-sa": (steps, 64, warmup, 0.05, "cosine", None),
            "bo-qsa": (250_000, 128, 5_000, 1.0, "exponential", 50_000),
        }
        for kind, train in found.items():
            (stage,) = train.stages
            assert stage == Stage(optimiser=Adam(4e-4, weight_decay=0.0), schedule=stage.schedule), kind
            assert train.crop_padding == 0
            warmup, decay = stage.schedule.warmup * train.steps, stage.schedule.decay
            half_life = stage.schedule.half_life * train.steps if decay == "exponential" else None
            course = (train.steps, train.batch_size, warmup, train.clip_norm, decay, half_life)
            assert course == pytest.approx(expected[kind]), (kind, data_set)


def test_an_unknown_data_set_is_refused():
    with pytest.raises(ValueError, match="unknown data set 'mnist': there are tetrominoes"):
        slot_attention("mnist")


@pytest.mark.parametrize("kind", KINDS)
def test_takes_a_step(kind):
    baseline = BASELINES[f"{kind}-tetrominoes"]()
    torch.manual_seed(0)
    model, x = baselines.CLASSES[kind](baseline.model), torch.rand(1, 3, 32, 32)
    loss = model.loss(model(x), x)
    loss.backward()
    assert loss.isfinite()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def genesis_parameters(side: int, f: int = 64) -> int:
    """How many weights the architecture has."""

    def conv3(inputs: int, outputs: int) -> int:
        return 9 * inputs * outputs + 2 * outputs

    def linear(inputs: int, outputs: int) -> int:
        return inputs * outputs + outputs

    extra = {32: 0, 64: 1, 128: 2}[side]
    down = conv3(3, f) + extra * conv3(f, f) + conv3(f, 2 * f) + 2 * conv3(2 * f, 2 * f)
    up = 2 * conv3(4 * f, 2 * f) + conv3(4 * f, f) + (1 + extra) * conv3(2 * f, f)
    bottom = linear(32 * f, 128) + linear(128, 128) + linear(128, 32 * f)
    colouring = conv3(f, f) + linear(f, 8) + 2
    posterior = conv3(f, f) + linear(f, 2 * f) + 4 * f + 2 * linear(2 * f, 2 * f)
    prior = 4 * 4 * f * (f + 4 * f + 2) + linear(4 * f, 2 * f)
    decoder = 25 * (f + 2) * f + 3 * 25 * f * f + 4 * 3 * f + linear(f, 4)
    return down + up + bottom + colouring + posterior + prior + decoder


def test_genesis_presets():
    for name, (side, slots, data, background, most) in GENESIS.items():
        preset = genesis_v2(name)
        assert preset.name == f"genesis-v2-{name}"
        assert preset.model == GenesisV2Config(image_size=(side, side), slots=slots)
        assert (preset.model.features, preset.model.colours, preset.model.kernel) == (64, 8, "gaussian")
        assert (preset.model.pixel_deviation, preset.model.geco.goal, preset.model.geco.beta) == (0.7, 0.5655, 1)
        assert (preset.data.name, preset.data.background_labels, preset.data.max_objects) == (data, background, most)
        train, (stage,) = preset.train, preset.train.stages
        assert (train.steps, train.batch_size, train.clip_norm) == (500_000, 32, None)
        assert stage.optimiser == Adam(learning_rate=1e-4, weight_decay=0.0)
        for step in (0, 250_000, 499_999):
            assert learning_rate_factor(stage.schedule, step, train.steps) == 1


@pytest.mark.parametrize("name", ["tetrominoes", "multi-dsprites", "clevr6"])
def test_genesis_has_as_many_weights_as_the_architecture(name):
    with torch.device("meta"):
        model = GenesisV2(genesis_v2(name).model)
    count = sum(parameter.numel() for parameter in model.parameters())
    side = GENESIS[name][0]
    assert count == genesis_parameters(side)
    # The published adaptation has as many.
    assert round(count / 1e6, 2) == {32: 2.62, 64: 2.73, 128: 2.84}[side]
