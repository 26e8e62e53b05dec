import pytest

from cocanet.config.plain import from_plain, to_plain
from cocanet.config.rivals import GecoConfig, GenesisV2Config
from cocanet.models.baselines.genesis_v2 import GenesisV2
from cocanet.presets.rivals import genesis_v2
from cocanet.train.optimiser import learning_rate_factor
from tests.models.baselines.genesis.tiny import tiny_config

# side, slots, data, background labels, most objects
ALL = {
    "tetrominoes": (32, 4, "tetrominoes", 1, None),
    "multi-dsprites": (64, 6, "multi-dsprites", 1, None),
    "objects-room": (64, 7, "objects-room", 4, None),
    "shapestacks": (64, 7, "shapestacks", 1, None),
    "clevr6": (128, 7, "clevr", 1, 6),
    "clevrtex": (128, 11, "clevrtex", 1, None),
}


def weights(side: int, f: int = 64) -> int:
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


@pytest.mark.parametrize("name", ALL)
def test_presets(name):
    side, slots, data, background, most = ALL[name]
    preset = genesis_v2(name)
    assert preset.name == f"genesis-v2-{name}"
    assert preset.model == GenesisV2Config(image_size=(side, side), slots=slots)
    assert (preset.model.features, preset.model.colours, preset.model.kernel) == (64, 8, "gaussian")
    assert (preset.model.pixel_deviation, preset.model.geco.goal, preset.model.geco.beta) == (0.7, 0.5655, 1)
    assert (preset.data.name, preset.data.background_labels, preset.data.max_objects) == (data, background, most)
    train = preset.train
    assert (train.steps, train.batch_size, train.learning_rate, train.weight_decay) == (500_000, 32, 1e-4, 0)
    assert train.clip_norm is None
    for step in (0, 250_000, 499_999):
        assert learning_rate_factor(train, step) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("name", ALL)
def test_weights_are_as_many_as_the_architecture_has(name):
    model = GenesisV2(genesis_v2(name).model)
    count = sum(parameter.numel() for parameter in model.parameters())
    side = ALL[name][0]
    assert count == weights(side)
    # The published adaptation has as many.
    assert round(count / 1e6, 2) == {32: 2.62, 64: 2.73, 128: 2.84}[side]


def test_a_configuration_survives_as_json():
    config = tiny_config(kernel="laplacian", geco=GecoConfig(beta=0.5))
    plain = to_plain(config)
    assert plain["kind"] == "genesis-v2"
    assert from_plain(GenesisV2Config, plain, "here") == config


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image_size": (32, 64)}, "square images .* got 32×64"),
        ({"image_size": (48, 48)}, "power of two from 16; got 48×48"),
        ({"image_size": (8, 8)}, "got 8×8"),
        ({"slots": 1}, "slots must be at least 2; got 1"),
        ({"features": 12}, "multiple of 8 up to 64; got 12"),
        ({"features": 72}, "multiple of 8 up to 64; got 72"),
        ({"colours": 1}, "colours must be at least 2"),
        ({"pixel_deviation": 0.0}, "pixel_deviation must be positive; got 0.0"),
    ],
)
def test_bad_configurations_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        tiny_config(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"momentum": 1.0}, "momentum must be 0 or more and below 1; got 1.0"),
        ({"beta": 2.0, "beta_range": (0.1, 1.0)}, "beta must lie in its range"),
        ({"beta_range": (0.0, 1.0)}, "beta must lie in its range of positive numbers"),
        ({"step": 0.0}, "step must be positive"),
    ],
)
def test_bad_geco_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        GecoConfig(**changes)
