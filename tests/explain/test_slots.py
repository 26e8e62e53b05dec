"""What slots stand for: their pictures, scenes without some, and what feedback made them of."""

import numpy as np
import torch

from cocanet.config import DataConfig, Preset
from cocanet.explain.slots import mixture_of, origins, scene_of, slot_pictures
from cocanet.models.build import build
from tests.tiny import images, small, token_net


def test_a_mixture_without_some_is_a_softmax_over_the_others():
    draw = torch.Generator().manual_seed(0)
    logits, pictures = torch.randn(4, 5, 6, generator=draw), torch.rand(4, 3, 5, 6, generator=draw)
    kept = torch.tensor([True, False, True, True])
    expected = (logits[kept].softmax(0).unsqueeze(1) * pictures[kept]).sum(0)
    torch.testing.assert_close(mixture_of(pictures, logits.softmax(0), kept), expected)
    everything = (logits.softmax(0).unsqueeze(1) * pictures).sum(0)
    torch.testing.assert_close(mixture_of(pictures, logits.softmax(0), torch.ones(4, dtype=torch.bool)), everything)


def test_pixels_that_only_an_absent_slot_had_go_evenly_to_the_others():
    masks = torch.tensor([1.0, 0.0, 0.0])[:, None, None].expand(3, 2, 2)
    pictures = torch.tensor([0.1, 0.2, 0.4])[:, None, None, None].expand(3, 3, 2, 2)
    left = mixture_of(pictures, masks, torch.tensor([False, True, True]))
    torch.testing.assert_close(left, torch.full((3, 2, 2), 0.3))
    assert mixture_of(pictures, masks, torch.zeros(3, dtype=torch.bool)).eq(0).all()


def found_by(config):
    """A model, and what it finds and paints in one image."""
    model = build(Preset("small", config, DataConfig("tetrominoes")), seed=1).eval()
    pictured = images(config, batch=1)
    found = model.encode(pictured)
    return model, found, model.paint(found, pictured)


@torch.no_grad()
def test_slots_have_pictures_of_their_own():
    model, found, painting = found_by(small())
    slots = slot_pictures(model, found, painting)
    expected = painting.slot_images[0].clamp(0, 1).permute(0, 2, 3, 1)
    np.testing.assert_array_equal(slots.pictures, expected)
    whole = scene_of(model, found, painting, np.ones(4, dtype=bool))
    np.testing.assert_allclose(whole, painting.mixture[0].clamp(0, 1).permute(1, 2, 0), atol=1e-6)
    without = scene_of(model, found, painting, np.arange(4) != 1)
    assert not np.array_equal(whole, without)


@torch.no_grad()
def test_a_decoder_by_tokens_tells_each_slot_as_if_there_were_no_other():
    model, found, painting = found_by(token_net())
    slots = slot_pictures(model, found, painting)
    for number, picture in enumerate(slots.pictures):
        alone = model.decoder.generate(found.slots[:, number : number + 1])[0]
        np.testing.assert_allclose(picture, alone.permute(1, 2, 0), atol=1e-5)
    kept = np.array([True, False, True])
    expected = model.decoder.generate(found.slots[:, kept])[0].permute(1, 2, 0)
    np.testing.assert_allclose(scene_of(model, found, painting, kept), expected, atol=1e-5)


def test_origins_count_pixels():
    before, after = np.zeros((2, 3, 2, 4))
    before[[0, 0, 0, 0, 1, 1, 2, 2], [0, 0, 0, 0, 1, 1, 1, 1], [0, 1, 2, 3, 0, 1, 2, 3]] = 1
    after[[0, 0, 0, 1, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1, 1, 1], [0, 1, 2, 3, 0, 1, 2, 3]] = 1
    np.testing.assert_allclose(origins(before, after), [[1, 0, 0], [0.2, 0.4, 0.4], [0, 0, 0]])
