"""Birds and Flowers at their published sizes and on a CPU: counts by formula, and every number that was chosen."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from cocanet.config import BoQsaConfig, CocaNetConfig, TokenDecoderConfig
from cocanet.models.build import build
from cocanet.presets import PHOTOGRAPHS, find
from cocanet.presets.auto import choose

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
    preset = find(name)
    model, config = build(preset, seed=0), preset.model
    tokens = config.tokens if isinstance(config, BoQsaConfig) else config.decoder
    assert tokens == PUBLISHED
    assert config.image_size == (128, 128)
    assert config.slots == (3 if name.endswith("birds") else 2)
    assert weights(model, "decoder.autoencoder") == autoencoder_weights(1024, 64, 3)
    assert weights(model, "decoder.transformer") == transformer_weights(256, 4, config.dim)
    assert weights(model, "decoder.words") == 1025 * 256
    assert weights(model, "decoder.places") == (1 + 32 * 32) * 256
    assert weights(model, "decoder.head") == 256 * 1024
    if isinstance(config, BoQsaConfig):
        assert (config.dim, config.iterations, config.drop_path) == (256, 3, 0.2)
        assert config.noisy_share == (0.12 if name.endswith("birds") else 0.0)
        assert weights(model, "encoder.look") == (3 * 25 + 1) * 64 + 3 * (64 * 25 + 1) * 64
    else:
        assert config == replace(find("clevrtex").model, decoder=PUBLISHED, levels=config.levels)
        assert [level.window for level in config.levels] == [(4, 4), (4, 4), (8, 8)]


@pytest.mark.parametrize("name", PHOTOGRAPHS)
def test_published_course(name):
    train = find(name).train
    assert (train.steps, train.batch_size, train.clip_norm) == (250_000, 128, 1.0)
    assert (train.learning_rate, train.token_learning_rate) == (1e-4, 3e-4)
    assert (train.warmup_steps, train.decay, train.half_life) == (10_000, "exponential", 50_000)
    assert (train.weight_decay, train.crop_padding, train.reconstruction) == (0, 0, 1)
    assert (train.figure, train.colour_code, train.mask_guidance, train.encoder_first) == (0, 0, 0, 0)
    # Cooling and noise end after 30,000 steps.
    assert PUBLISHED.cooling_share * train.steps == 30_000


@pytest.mark.parametrize("name", ["birds", "flowers"])
def test_on_a_cpu_the_encoder_learns_a_figure_and_the_rival_by_its_own_loss(name):
    ours, rival = find(f"{name}-cpu"), find(f"bo-qsa-{name}-cpu")
    for preset in (ours, rival):
        assert preset.by_tokens
        assert preset.data.resize
        assert preset.model.image_size == (64, 64)
        assert preset.model.slots == find(name).model.slots
    assert isinstance(ours.model, CocaNetConfig)
    assert ours.model.decoder == rival.model.tokens
    assert ours.model.grid == (16, 16)
    assert (ours.train.figure, ours.train.decoder_apart, ours.train.encoder_first) == (1.0, True, 0.2)
    assert (rival.train.figure, rival.train.decoder_apart, rival.train.encoder_first) == (0.0, False, 0.0)
    assert ours.train.batch_size == rival.train.batch_size


@pytest.mark.parametrize("size", [(48, 64), (96, 64), (128, 128)])
def test_auto_with_tokens_takes_photographs_of_any_shape(size):
    choice = choose(size, slots=3, decoder="tokens")
    assert choice.preset.by_tokens
    assert choice.preset.model.image_size == size
    assert any("tokens" in reason and "in the middle" in reason for reason in choice.reasons)
    model = build(choice.preset, seed=0).eval()
    with torch.inference_mode():
        out = model(torch.rand(1, 3, *size))
    assert out.encoder_masks.shape == (1, 3, *size)
    torch.testing.assert_close(out.encoder_masks.sum(1), torch.ones(1, *size), atol=1e-5, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["birds", "bo-qsa-birds"])
def test_a_published_step_of_two_photographs_is_finite(name):
    model, images = build(find(name), seed=0), torch.rand(2, 3, 128, 128)
    loss = model.loss(model(images), images)
    loss.backward()
    assert loss.isfinite()
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in model.parameters())
