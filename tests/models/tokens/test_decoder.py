import math

import pytest
import torch

from cocanet.config import BoQsaConfig, TokenDecoderConfig
from cocanet.models.build import build
from cocanet.models.output import Encoding
from cocanet.models.tokens import TokenDecoder
from cocanet.models.tokens.decoder import token_loss
from tests.models.tokens import transcription
from tests.tiny import TOKENS, images, token_net

CONFIGS = {
    "coca-net": token_net(),
    "bo-qsa": BoQsaConfig((8, 16), 3, channels=8, dim=16, hidden=8, encoder_strides=(2, 1), tokens=TOKENS),
}


def decoder(seed: int = 0, **changes) -> TokenDecoder:
    torch.manual_seed(seed)
    return TokenDecoder(
        TokenDecoderConfig(**{"vocabulary": 11, "dim": 8, "blocks": 2, "channels": 8} | changes), (8, 12), 6
    )


def scene(batch: int = 2):
    generator = torch.Generator().manual_seed(1)
    slots = torch.randn(batch, 3, 6, generator=generator)
    return slots, torch.ones(batch, 3, dtype=torch.bool), torch.rand(batch, 3, 8, 12, generator=generator)


def encoded(slots: torch.Tensor, in_use: torch.Tensor) -> Encoding:
    return Encoding(slots, torch.zeros(*slots.shape[:2], 8, 12), in_use)


def test_the_loss_is_squared_error_and_cross_entropy_of_an_image():
    torch.manual_seed(0)
    decoded, wanted = torch.rand(2, 3, 8, 12, dtype=torch.float64), torch.rand(2, 3, 8, 12, dtype=torch.float64)
    logits, tokens = torch.randn(2, 6, 11, dtype=torch.float64), torch.randint(11, (2, 2, 3))
    expected = transcription.loss(*(x.numpy() for x in (decoded, wanted, logits, tokens)))
    assert token_loss(decoded, wanted, logits, tokens).item() == pytest.approx(expected)


def test_cross_entropy_has_no_gradient_in_the_autoencoder():
    model = decoder()
    slots, in_use, x = scene()
    with torch.no_grad():
        tokens = model.autoencoder.logits(x).argmax(1)
    logits = model.head(model.predict(tokens, slots, in_use).features)
    nothing = torch.zeros_like(x)
    torch.manual_seed(0)
    loss = model(encoded(slots, in_use), x).loss
    loss.backward()
    whole = {name: p.grad.clone() for name, p in model.autoencoder.named_parameters()}
    model.zero_grad()
    torch.manual_seed(0)
    alone = (model(encoded(slots, in_use), x).reconstruction - x).square().sum() / len(x)
    alone.backward()
    for name, parameter in model.autoencoder.named_parameters():
        assert torch.equal(parameter.grad, whole[name]), name
    model.zero_grad()
    token_loss(nothing, nothing, logits, tokens).backward()
    assert all(parameter.grad is None for parameter in model.autoencoder.parameters())


def test_squared_error_has_a_gradient_in_the_autoencoder_only():
    model = decoder()
    slots, in_use, x = scene()
    slots.requires_grad_()
    (model(encoded(slots, in_use), x).reconstruction - x).square().sum().backward()
    assert slots.grad is None
    trained = {name for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert trained == {f"autoencoder.{name}" for name, _ in model.autoencoder.named_parameters()}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_any_encoder_learns_through_its_tokens(config):
    model, x = build(config, seed=0), images(config)
    model.loss(model(x), x).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_masks_sum_to_one_and_an_image_alone_is_the_image_in_a_batch(config):
    model, x = build(config, seed=0).eval(), images(config, 3)
    with torch.inference_mode():
        out, alone = model(x), model(x[1:2])
    for masks in (out.encoder_masks, out.decoder_masks):
        torch.testing.assert_close(masks.sum(1), torch.ones(3, *config.image_size), atol=1e-5, rtol=0)
    for name in ("slots", "encoder_masks", "decoder_masks", "reconstruction"):
        torch.testing.assert_close(getattr(out, name)[1:2], getattr(alone, name), atol=1e-4, rtol=1e-4)
    assert out.decoder_loss is None


def test_a_cached_generation_is_one_from_scratch():
    model = decoder(dropout=0.5).eval()
    torch.nn.init.normal_(model.head.weight)
    slots, in_use, _ = scene()
    tokens = torch.zeros(2, 6, dtype=torch.long)
    for place in range(6):  # the whole image anew for every token
        predicted = model.head(model.predict(tokens.unflatten(1, (2, 3)), slots, in_use).features)
        tokens[:, place] = predicted[:, place].argmax(-1)
    assert len(tokens.unique()) > 2
    expected = model.autoencoder.decode_tokens(tokens.unflatten(1, (2, 3))).clamp(0, 1)
    assert torch.equal(model.generate(slots, in_use), expected)
    assert torch.equal(model.generate(slots), expected)


def test_in_evaluation_each_token_is_predicted_from_the_true_ones_before_it():
    model = decoder().eval()
    slots, in_use, x = scene()
    with torch.no_grad():
        true = model.autoencoder.logits(x).argmax(1)
        predicted = model.head(model.predict(true, slots, in_use).features).argmax(-1)
        assert torch.equal(
            model(encoded(slots, in_use), x).reconstruction,
            model.autoencoder.decode_tokens(predicted.unflatten(1, (2, 3))),
        )


def test_the_choice_cools_along_half_a_cosine_and_stays_cold():
    model = decoder(temperature=(1.0, 0.1), cooling_share=0.5)
    course = ((0.0, 1.0), (0.125, 0.55 + 0.45 * math.cos(math.pi / 4)), (0.25, 0.55), (0.5, 0.1), (1.0, 0.1))
    for done, expected in course:
        model.anneal(done)
        assert model.temperature.item() == pytest.approx(expected)
    assert "temperature" in model.state_dict()


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("vocabulary", 1, "at least 2 tokens"),
        ("heads", 3, "do not divide"),
        ("kernel", 2, "odd"),
        ("dropout", 1.0, "below 1"),
        ("cooling_share", 1.5, "between 0 and 1"),
    ],
)
def test_bad_settings_are_named(field, value, message):
    with pytest.raises(ValueError, match=message):
        TokenDecoderConfig(**{"vocabulary": 8, "dim": 8} | {field: value})


def test_images_that_tokens_do_not_divide_are_refused():
    with pytest.raises(ValueError, match="do not divide 8×10 images"):
        TOKENS.grid((8, 10))
