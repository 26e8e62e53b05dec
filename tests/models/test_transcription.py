"""COCA-Net in float64 against a slow transcription in NumPy: every level's anchors and masks, and every output."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch

import cocanet
from cocanet.config import CocaNetConfig, ConvConfig, DecoderConfig, DynamicSlots, LevelConfig
from cocanet.config.resolution import at_image_size
from tests.reference import network
from tests.reference.layers import weights
from tests.tiny import DEEP, FLAT, THREE, images, small

POINTWISE = DecoderConfig((8, 12), (ConvConfig(8, 1), ConvConfig(8, 1), ConvConfig(4, 1)), octaves=2, frame="slot")
TOLERANCE = 1e-8
"""Distances by one matrix product lose digits where nodes nearly coincide; all but one case agree to 1e-10."""


def attending(attention: str, kernel: int | None = None) -> CocaNetConfig:
    """Two levels of which both attend in the same way."""
    return small(levels=tuple(replace(level, attention=attention, kernel=kernel) for level in small().levels))


CASES = {
    "one level": FLAT,
    "two levels": small(),
    "three levels": THREE,
    "four levels, transposed decoder": DEEP,
    "neighbourhood": attending("neighbourhood", 3),
    "wide neighbourhood": replace(DEEP, levels=(replace(DEEP.levels[0], kernel=5), *DEEP.levels[1:])),
    "global": attending("global"),
    "dilated": small(levels=tuple(replace(level, candidate_stride=2) for level in small().levels)),
    "dilated by 3": small(levels=(replace(small().levels[0], candidate_stride=3, clusters=2), small().levels[1])),
    "norm over images": small(norm="image"),
    "printed inertia": replace(THREE, inertia="printed"),
    "released inertia": replace(THREE, inertia="released"),
    "gamma": small(backbone=replace(small().backbone, input_gamma=0.5)),
    "slot frame": small(decoder=POINTWISE),
    "slot frame, three levels": replace(THREE, decoder=POINTWISE),
    "slot frame, one level": replace(FLAT, decoder=POINTWISE),
}


@contextmanager
def in_float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


def assert_agrees(config: CocaNetConfig, state: dict[str, torch.Tensor] | None = None, batch: int = 2) -> None:
    """Outputs of the network and of the transcription, with fresh weights or with those of `state`."""
    with in_float64():
        model = cocanet.build(config, seed=1).double().eval()
        if state is not None:
            model.load_state_dict(state)
        x = images(config, batch)
        with torch.no_grad():
            out = model(x)
    w = weights(model)
    for index in range(batch):
        expected = network.forward(config, w, x[index].numpy())
        used = len(expected.slots)
        assert out.in_use[index].tolist() == [True] * used + [False] * (out.in_use.shape[1] - used)
        for number, level in enumerate(out.levels):
            clusters = expected.masks[number].shape[1]
            anchors = level.clusters.anchors[index, :, : clusters - 1]
            np.testing.assert_array_equal(anchors, expected.anchors[number], err_msg=f"anchors of level {number + 1}")
            masks = level.clusters.masks[index, :, :clusters]
            np.testing.assert_allclose(masks, expected.masks[number], atol=TOLERANCE, rtol=0)
        for name in ("slots", "encoder_masks", "slot_images", "decoder_masks"):
            ours = getattr(out, name)[index, :used]
            np.testing.assert_allclose(ours, getattr(expected, name), atol=TOLERANCE, rtol=TOLERANCE, err_msg=name)
        np.testing.assert_allclose(out.reconstruction[index], expected.reconstruction, atol=TOLERANCE, rtol=TOLERANCE)


@pytest.mark.parametrize("config", CASES.values(), ids=CASES)
def test_outputs_are_those_of_the_transcription(config):
    assert_agrees(config, batch=1 if len(config.levels) == 1 else 2)


def test_dynamic_slots_are_those_of_the_transcription():
    config = small(dynamic=DynamicSlots(scope_threshold=0.2, max_slots=12))
    with in_float64():
        model = cocanet.build(config, seed=1).double().eval()
        counts = model(images(config, 4)).in_use.sum(1)
    assert len(counts.unique()) > 1
    assert counts.max() < 12
    assert_agrees(config, batch=4)


def test_the_transcription_notices_a_changed_weight():
    """The comparison can fail: a thousandth added to one weight of the skip connection is seen."""
    model = cocanet.build(THREE, seed=1)
    w = weights(model)
    w["hierarchy.levels.2.skip.inner.weight"][0, 0] += 1e-3
    x = images(THREE, 1)
    with torch.no_grad():
        slots = model.eval()(x).slots[0].numpy()
    assert np.abs(network.forward(THREE, weights(model), x[0].double().numpy()).slots - slots).max() < 1e-4
    assert np.abs(network.forward(THREE, w, x[0].double().numpy()).slots - slots).max() > 1e-4


def test_weights_serve_every_size_of_a_curriculum():
    """One set of weights at 16×24 and at 8×12 pixels, where the first windows are half as large."""
    full = small(
        image_size=(16, 24),
        levels=(LevelConfig((8, 6), 3, 1.0, 1), LevelConfig((2, 4), 4, 1.0, 1)),
        decoder=replace(POINTWISE, broadcast=(16, 24)),
    )
    half = at_image_size(full, (8, 12))
    assert [level.window for level in half.levels] == [(4, 3), (2, 4)]
    with in_float64():
        state = cocanet.build(full, seed=5).double().state_dict()
    assert_agrees(half, state)
    assert_agrees(full, state, batch=1)
