"""Feedback inside COCA-Net: off it is not there, on it corrects masks, slots and pictures alike."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import cocanet
from cocanet import presets
from cocanet.config import DynamicSlots, FeedbackConfig, TrainConfig
from cocanet.config.slots import SlotLimits
from cocanet.models.model import reconstruction_loss
from cocanet.train.loss import Objective
from tests.tiny import DEEP, FLAT, images, in_slot_frame, small

ON = FeedbackConfig(rounds=3, contrast=0.4)
WAYS = {
    "corrected": ON,
    "regrouped": replace(ON, regroup=True),
    "cut": replace(ON, upright=0.1),
    "all": replace(ON, regroup=True, regroup_noise=0.005, rim=0.3, whole=0.1, upright=0.1, level=0.1),
}
CONFIGS = {"two": small(), "four": DEEP, "one": FLAT, "slot frame": in_slot_frame(small())}


@pytest.mark.parametrize("feedback", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_masks_sum_to_one_and_every_weight_has_a_gradient(config, feedback):
    model, x = cocanet.build(replace(config, feedback=feedback), seed=0), images(config, 3)
    out = model(x)
    torch.testing.assert_close(out.encoder_masks.sum(1), torch.ones(3, *config.image_size), atol=1e-5, rtol=0)
    assert (out.encoder_masks - out.masks_from_below).abs().max() > 0.01
    reconstruction_loss(out, x).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_off_the_model_is_what_it_was_bit_for_bit(config):
    """Whatever the other settings of feedback are, and also if it was on in training."""
    x = images(config)
    plain = cocanet.build(config, seed=0)(x)
    off = cocanet.build(replace(config, feedback=replace(ON, rounds=0)), seed=0)(x)
    asked = cocanet.build(replace(config, feedback=ON), seed=0)(x, feedback=FeedbackConfig())
    for out in (off, asked):
        for name in ("slots", "encoder_masks", "decoder_masks", "mixture"):
            assert torch.equal(getattr(out, name), getattr(plain, name)), name
        assert torch.equal(out.masks_from_below, out.encoder_masks)


def test_masks_from_below_are_those_without_feedback_and_the_hierarchy_stays():
    config = small()
    x = images(config)
    plain, corrected = (cocanet.build(replace(config, feedback=f), seed=0)(x) for f in (FeedbackConfig(), ON))
    assert torch.equal(corrected.masks_from_below, plain.encoder_masks)
    for one, other in zip(plain.levels, corrected.levels, strict=True):
        assert torch.equal(one.clusters.masks, other.clusters.masks)
    assert torch.equal(cocanet.build(config, seed=0).masks_from_below(x), plain.encoder_masks)


def test_slots_are_pooled_again_under_the_corrected_masks():
    """Of one level: the nodes are the pixels, so that the layer's own pooling under the corrected masks is the slot."""
    model = cocanet.build(replace(FLAT, feedback=ON), seed=0).eval()
    with torch.no_grad():
        found = model.encode(images(FLAT))
        clusters, layer = found.levels[0].clusters, model.hierarchy.levels[0]
        features = layer.coca.pool(clusters.nodes, found.masks.flatten(2).unsqueeze(1)).squeeze(1)
        x = model.hierarchy.norm(features)
        torch.testing.assert_close(found.slots, x + model.hierarchy.mlp(x))
        own = layer.coca.pool(clusters.nodes, clusters.masks)
    torch.testing.assert_close(own, clusters.features)
    assert (features - own.squeeze(1)).abs().max() > 1e-3


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_pooling_again_under_the_masks_from_below_changes_no_slot(config):
    """The way down and up again loses nothing: a correction by no voice leaves the slots as they were."""
    model = cocanet.build(config, seed=0).eval()
    silent = FeedbackConfig(rounds=1, neighbours=0.0, figure=0.0, slots=0.0)
    with torch.no_grad():
        plain, again = model.encode(images(config)), model.encode(images(config), silent)
    torch.testing.assert_close(again.masks, plain.masks, atol=2e-4, rtol=0)
    if len(config.levels) == 1:
        torch.testing.assert_close(again.slots, plain.slots, atol=2e-3, rtol=0)


@pytest.mark.parametrize("feedback", WAYS.values(), ids=WAYS)
def test_an_image_alone_equals_the_image_in_a_batch(feedback):
    model = cocanet.build(replace(in_slot_frame(small()), feedback=feedback), seed=0).eval()
    x = images(small(), 4)
    with torch.no_grad():
        together = model(x)
        for index in range(4):
            alone = model(x[index : index + 1])
            torch.testing.assert_close(alone.encoder_masks[0], together.encoder_masks[index], atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(alone.slots[0], together.slots[index], atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("feedback", WAYS.values(), ids=WAYS)
def test_slots_that_pad_an_image_stay_empty(feedback):
    config = replace(small(), dynamic=DynamicSlots(stop_below=0.2, most=8), feedback=feedback)
    model = cocanet.build(config, seed=0).eval()
    x = torch.cat((images(config, 3), torch.full((1, 3, 8, 12), 0.5)))
    with torch.no_grad():
        out = model(x)
    assert not out.in_use.all()
    assert (out.encoder_masks[~out.in_use] == 0).all()
    torch.testing.assert_close(out.encoder_masks.sum(1), torch.ones(4, 8, 12))


def two_of_one_kind() -> torch.Tensor:
    """Images of 8 × 12 pixels: two squares of one colour, apart, on a ground."""
    x = torch.full((1, 3, 8, 12), 0.2)
    x[:, 0, 1:4, 1:4] = x[:, 0, 4:7, 7:10] = 0.9
    return x


def test_of_dynamic_slots_feedback_may_take_more_and_numbers_have_no_gaps():
    """A correction alone gives no pixel to a slot that the scene did not need, and a fixed number stays as it is."""
    config = replace(small(), dynamic=DynamicSlots(stop_below=0.9, most=8), feedback=WAYS["regrouped"])
    model, x = cocanet.build(config, seed=0).eval(), torch.cat((two_of_one_kind(), images(config, 5)))
    with torch.no_grad():
        found, fixed, given = model.encode(x), model.encode(x, limits=SlotLimits(8)), model.encode(x, ON)
    assert torch.equal(given.in_use, given.levels[-1].clusters.in_use[:, 0])
    assert fixed.in_use.all()
    assert (found.in_use & ~given.in_use)[0].any()
    assert not (given.in_use & ~found.in_use).any()
    for used, own in zip(found.in_use, found.masks.argmax(1), strict=True):
        assert used.tolist() == sorted(used.tolist(), reverse=True)
        assert used[own].all()


def test_works_under_autocast_in_full_precision():
    config = replace(small(), feedback=ON)
    model, x = cocanet.build(config, seed=0), images(config)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(x)
    assert out.encoder_masks.dtype == torch.float32
    torch.testing.assert_close(out.encoder_masks.sum(1), torch.ones(2, 8, 12), atol=1e-5, rtol=0)


def test_a_regrouped_slot_is_centred_in_its_own_mask():
    """It may lie far from the anchor that its slot had."""
    config = in_slot_frame(small())
    model = cocanet.build(replace(config, feedback=WAYS["regrouped"]), seed=0).eval()
    with torch.no_grad():
        found = model.encode(images(config, 8))
    (height, width), grid = config.image_size, config.decoder.broadcast
    rows, columns = (found.cells[..., axis] * (height, width)[axis] // grid[axis] for axis in (0, 1))
    sure = found.masks.amax((-2, -1)) > 0.9
    own = found.masks.flatten(2).gather(2, (rows * width + columns).unsqueeze(-1)).squeeze(-1)
    assert sure.any()
    assert (own[sure] > 0.3).float().mean() > 0.9


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rounds": -1}, "rounds must be 0 or more; got -1"),
        ({"contrast": 0.0}, "contrast must be positive; got 0.0"),
        ({"reach": 0}, "reach must be positive; got 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        FeedbackConfig(**changes)


def test_trained_without_feedback_a_model_is_evaluated_with_it():
    config = replace(small(), feedback=WAYS["all"])
    model, x = cocanet.build(config, seed=0), images(config)
    with_it, without = (Objective(model, TrainConfig(feedback=on))(x) for on in (True, False))
    assert with_it != without
    torch.testing.assert_close(without, reconstruction_loss(model(x, FeedbackConfig()), x))
    assert (model.eval()(x).encoder_masks - model(x).masks_from_below).abs().max() > 0.01
    rival = presets.find("slot-attention-tetrominoes")
    with pytest.raises(ValueError, match=r"only a coca-net has feedback .* no slot-attention's"):
        replace(rival, train=TrainConfig(feedback=False))
