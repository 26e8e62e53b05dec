"""Images of single slots, and reconstructions without some of them."""

import numpy as np
import torch

from cocanet.explain.slot_images import decode_scene, decode_slots, mix_slots
from cocanet.models.build import build
from tests.tiny import images, small, token_net


def test_mixing_without_some_slots_is_a_softmax_over_the_others():
    draw = torch.Generator().manual_seed(0)
    logits, slot_images = torch.randn(4, 5, 6, generator=draw), torch.rand(4, 3, 5, 6, generator=draw)
    for kept in (torch.tensor([True, False, True, True]), torch.ones(4, dtype=torch.bool)):
        expected = (logits[kept].softmax(0).unsqueeze(1) * slot_images[kept]).sum(0)
        torch.testing.assert_close(mix_slots(slot_images, logits.softmax(0), kept), expected)


def test_pixels_of_an_absent_slot_alone_are_shared_evenly():
    masks = torch.tensor([1.0, 0.0, 0.0])[:, None, None].expand(3, 2, 2)
    slot_images = torch.tensor([0.1, 0.2, 0.4])[:, None, None, None].expand(3, 3, 2, 2)
    mixed = mix_slots(slot_images, masks, torch.tensor([False, True, True]))
    torch.testing.assert_close(mixed, torch.full((3, 2, 2), 0.3))
    assert mix_slots(slot_images, masks, torch.zeros(3, dtype=torch.bool)).eq(0).all()


def predict(config):
    model = build(config, seed=1).eval()
    image = images(config, batch=1)
    encoding = model.encode(image)
    return model, encoding, model.decoder(encoding, image)


@torch.no_grad()
def test_slot_images_and_scenes_are_the_decoders():
    model, encoding, decoded = predict(small())
    slots = decode_slots(model, encoding, decoded)
    np.testing.assert_array_equal(slots.images, decoded.slot_images[0].clamp(0, 1).permute(0, 2, 3, 1))
    whole = decode_scene(model, encoding, decoded, np.ones(4, dtype=bool))
    np.testing.assert_allclose(whole, decoded.reconstruction[0].clamp(0, 1).permute(1, 2, 0), atol=1e-6)
    assert not np.array_equal(whole, decode_scene(model, encoding, decoded, np.arange(4) != 1))


@torch.no_grad()
def test_a_token_decoder_generates_from_the_kept_slots_alone():
    model, encoding, decoded = predict(token_net())
    slots = decode_slots(model, encoding, decoded)
    for number, image in enumerate(slots.images):
        alone = model.decoder.generate(encoding.slots[:, number : number + 1])[0]
        np.testing.assert_allclose(image, alone.permute(1, 2, 0), atol=1e-5)
    kept = np.array([True, False, True])
    expected = model.decoder.generate(encoding.slots[:, kept])[0].permute(1, 2, 0)
    np.testing.assert_allclose(decode_scene(model, encoding, decoded, kept), expected, atol=1e-5)
