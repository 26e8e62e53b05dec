"""Birds and Flowers at their published sizes: weights counted by formula, and every number of their training."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from cocanet.config import Adam, BoQsaConfig, Schedule, Stage, TokenDecoderConfig
from cocanet.models.build import build
from cocanet.presets import PHOTOGRAPHS, find

PUBLISHED = TokenDecoderConfig(
    vocabulary=1024,
    dim=256,
    blocks=4,
    heads=4,
    dropout=0.1,
    channels=64,
    kernel=3,
    temperature=(1.0, 0.1),
    cooling_share=0.12,
)


def weights(model, part: str) -> int:
    return sum(weight.numel() for name, weight in model.named_parameters() if name.startswith(part))


def autoencoder_weights(words: int, width: int, kernel: int) -> int:
    """By what SLATE's and BO-QSA's papers say of it: every block has its norm's scale and shift, and no bias."""

    def block(inputs: int, outputs: int, side: int) -> int:
        return inputs * outputs * side**2 + 2 * outputs

    encoder = block(3, width, 4) + 6 * block(width, width, kernel) + (width + 1) * words
    first = block(words, width, 1) + block(width, width, 3) + block(width, width, kernel) + block(width, width, 1)
    second = block(width, width, 3) + 2 * block(width, width, 1)
    return encoder + first + second + 2 * block(width, 4 * width, 1) + 3 * (width + 1)


def transformer_weights(dim: int, blocks: int, slot_dim: int) -> int:
    """Two attentions of four maps, an MLP of four times the features with biases, three norms a block, and one more."""
    block = 8 * dim**2 + (4 * dim**2 + 4 * dim) + (4 * dim**2 + dim) + 3 * 2 * dim
    return slot_dim * dim + blocks * block + 2 * dim


@pytest.mark.parametrize("name", PHOTOGRAPHS)
def test_published_sizes(name):
    config = find(name).model
    with torch.device("meta"):
        model = build(config)
    tokens = config.tokens if isinstance(config, BoQsaConfig) else config.decoder
    assert tokens == PUBLISHED
    assert config.image_size == (128, 128)
    assert config.slots == (3 if name.endswith("birds") else 2)
    assert weights(model, "decoder.autoencoder") == autoencoder_weights(1024, 64, 3)
    assert weights(model, "decoder.transformer") == transformer_weights(256, 4, config.dim)
    assert weights(model, "decoder.tokens") == 1025 * 256
    assert weights(model, "decoder.places") == (1 + 32 * 32) * 256
    assert weights(model, "decoder.head") == 256 * 1024
    if isinstance(config, BoQsaConfig):
        assert (config.dim, config.iterations, config.drop_path) == (256, 3, 0.2)
        assert config.noisy_share == (0.12 if name.endswith("birds") else 0.0)
        assert weights(model, "encoder.conv") == (3 * 25 + 1) * 64 + 3 * (64 * 25 + 1) * 64
    else:
        assert config == replace(find("clevrtex").model, decoder=PUBLISHED, levels=config.levels)
        assert [level.window for level in config.levels] == [(4, 4), (4, 4), (8, 8)]


@pytest.mark.parametrize("name", PHOTOGRAPHS)
def test_published_training(name):
    train, (stage,) = find(name).train, find(name).train.stages
    assert (train.steps, train.batch_size, train.clip_norm, train.crop_padding) == (250_000, 128, 1.0, 0)
    assert stage.optimiser == Adam(learning_rate=1e-4, weight_decay=0.0, token_learning_rate=3e-4)
    assert (stage.schedule.warmup * train.steps, stage.schedule.half_life * train.steps) == (10_000, 50_000)
    assert replace(stage, optimiser=Adam(), schedule=Schedule()) == Stage()
    # Cooling and noise end after 30,000 steps.
    assert PUBLISHED.cooling_share * train.steps == 30_000


@pytest.mark.parametrize("name", ["birds", "flowers"])
def test_a_token_decoder_has_no_fast_recipe(name):
    assert find(name).has_token_decoder
    with pytest.raises(ValueError, match="needs a spatial broadcast decoder; this model has a token decoder"):
        find(f"{name}-fast")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["birds", "bo-qsa-birds"])
def test_a_published_step_of_a_photograph_is_finite(name):
    model, images = build(find(name), seed=0), torch.rand(1, 3, 128, 128)
    loss = model.loss(model(images), images)
    loss.backward()
    assert loss.isfinite()
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in model.parameters())
