from dataclasses import replace

import pytest
import torch
from einops import rearrange, repeat
from torch.autograd import gradcheck

import cocanet
from cocanet.config import ConvConfig, DecoderConfig
from cocanet.models.decoder import BroadcastConv, BroadcastDecoder, MaskPrior, mix, mix_pixels
from cocanet.models.output import Encoding
from tests.tiny import images, small


@pytest.mark.parametrize(
    ("grid", "kernel", "stride"),
    [((6, 9), 5, 1), ((3, 3), 5, 1), ((1, 2), 3, 1), ((4, 4), 1, 1), ((8, 8), 5, 2), ((3, 5), 3, 2), ((2, 2), 7, 3)],
)
def test_first_convolution_is_that_of_the_laid_out_slots(grid, kernel, stride):
    torch.manual_seed(0)
    module = BroadcastConv(6, ConvConfig(5, kernel, stride), grid).double()
    slots, position = torch.randn(3, 6, dtype=torch.float64), torch.randn(*grid, 6, dtype=torch.float64)
    laid_out = repeat(slots, "m d -> m h w d", h=grid[0], w=grid[1]) + position
    expected = module.conv(rearrange(laid_out, "m h w d -> m d h w"))
    torch.testing.assert_close(module(slots, module.of_position(position)), expected, atol=1e-9, rtol=0)


def test_gradient_of_first_convolution():
    module = BroadcastConv(2, ConvConfig(2, 3, 2), (2, 3)).double()
    slots = torch.randn(2, 2, dtype=torch.float64, requires_grad=True)
    position = torch.randn(2, 3, 2, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda slots, position: module(slots, module.of_position(position)), (slots, position))


def test_mixing_leaves_out_unused_slots():
    layers = torch.randn(2, 3, 4, 2, 2)
    in_use = torch.tensor([[True, True, False], [True, True, True]])
    decoded = mix(layers, in_use)
    assert (decoded.masks[0, 2] == 0).all()
    fewer = mix(layers[:1, :2], in_use[:1, :2])
    torch.testing.assert_close(decoded.reconstruction[:1], fewer.reconstruction)


@pytest.mark.parametrize("frame", ["image", "slot"])
@pytest.mark.parametrize("few", [1, 4, 100])
def test_without_gradients_a_few_slots_are_decoded_at_a_time_and_unused_ones_not_at_all(frame, few, monkeypatch):
    torch.manual_seed(0)
    decoder = BroadcastDecoder(DecoderConfig((6, 8), (ConvConfig(6, 3), ConvConfig(4, 3)), octaves=2, frame=frame), 5)
    slots, in_use = torch.randn(3, 4, 5), torch.tensor([[True] * 4, [True, False, False, False], [True] * 3 + [False]])
    cells = torch.randint(0, 6, (3, 4, 2)) if frame == "slot" else None
    expected = mix(decoder.decode(slots, in_use, cells), in_use)
    decoded = []
    whole = decoder._decode
    monkeypatch.setattr(decoder, "_decode", lambda slots, *others: decoded.append(len(slots)) or whole(slots, *others))
    decoder.at_once = few
    with torch.no_grad():
        found = mix(decoder.decode(slots, in_use, cells), in_use)
    assert sum(decoded) == 8
    assert max(decoded) == min(few, 8)
    torch.testing.assert_close(found.reconstruction, expected.reconstruction)
    torch.testing.assert_close(found.masks, expected.masks)
    torch.testing.assert_close(found.slot_images[in_use], expected.slot_images[in_use])
    assert (found.slot_images[~in_use] == 0.5).all()


@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (5, 2)])
def test_in_their_own_frame_slots_decode_alike_wherever_they_are(kernel, stride):
    torch.manual_seed(0)
    config = DecoderConfig((16, 16), (ConvConfig(6, kernel, stride), ConvConfig(4, 3)), octaves=2, frame="slot")
    decoder = BroadcastDecoder(config, dim=5)
    slot, in_use = torch.randn(5).expand(1, 2, 5), torch.ones(1, 2, dtype=torch.bool)
    here, there = decoder.decode(slot, in_use, torch.tensor([[[7, 6], [9, 9]]]))[0, :, :3]
    rows, columns = 2 * stride, 3 * stride
    moved = here.roll((rows, columns), (1, 2))
    inner = slice(5 * stride, -5 * stride)
    torch.testing.assert_close(there[:, inner, inner], moved[:, inner, inner])
    assert not torch.allclose(there[:, inner, inner], here[:, inner, inner], atol=1e-3)


POINTWISE = (ConvConfig(8, 1), ConvConfig(8, 1), ConvConfig(4, 1))


@pytest.mark.parametrize(("frame", "prior_from"), [("image", None), ("slot", None), ("slot", 0.5)])
def test_some_pixels_are_decoded_as_all_are(frame, prior_from):
    """Values and gradients, of pixels in any order."""
    config = small(decoder=DecoderConfig((8, 12), POINTWISE, octaves=2, frame=frame, prior_from=prior_from))
    model = cocanet.build(config, seed=0).double()
    model.anneal(0.9)
    decoder, x = model.decoder, images(config).double()
    pixels = torch.randperm(96, generator=torch.Generator().manual_seed(0))[:20]

    def all_then_some(encoding: Encoding) -> torch.Tensor:
        return decoder.layers(encoding).flatten(3)[..., pixels].mT

    found = []
    for decode in (all_then_some, lambda encoding: decoder.decode_pixels(encoding, pixels)):
        model.zero_grad()
        layers = decode(model.encode(x))
        layers.square().sum().backward()
        found.append((layers, {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}))
    (expected, gradients), (ours, our_gradients) = found
    assert ours.shape == (2, 4, 20, 4)
    torch.testing.assert_close(ours, expected, atol=1e-10, rtol=1e-10)
    assert our_gradients.keys() == gradients.keys()
    assert any(name.startswith("backbone") for name in gradients)
    for name, gradient in gradients.items():
        torch.testing.assert_close(our_gradients[name], gradient, atol=1e-9, rtol=1e-8, msg=name)


def test_the_mask_prior_is_the_encoders_masks_times_the_decoders():
    """Late in a run, masks are the normalised product."""
    with_prior = small(decoder=DecoderConfig((8, 12), POINTWISE, octaves=2, frame="slot", prior_from=0.5))
    without = replace(with_prior, decoder=replace(with_prior.decoder, prior_from=None))
    model, plain = (cocanet.build(config, seed=0) for config in (with_prior, without))
    plain.load_state_dict({name: x for name, x in model.state_dict().items() if "prior" not in name})
    x = images(with_prior)
    encoding = plain.encode(x)
    masks, encoder_masks = plain.decoder(encoding, x).masks, encoding.masks.clamp(min=1e-3)
    for done, power in ((0.0, 0), (0.4, 0), (0.5, 1), (1.0, 1)):
        model.anneal(done)
        product = masks * encoder_masks**power
        torch.testing.assert_close(model.decoder(encoding, x).masks, product / product.sum(1, keepdim=True))


def test_no_gradient_flows_through_the_mask_prior():
    """Else the encoder's masks could copy the image, and slots need not describe objects."""
    prior = MaskPrior(0.5)
    prior.anneal(1.0)
    assert not prior(torch.rand(2, 3, 4, 5, requires_grad=True)).requires_grad


def test_pixels_are_mixed_as_images_are():
    layers, in_use = torch.randn(2, 3, 4, 2, 5), torch.tensor([[True, True, False], [True, True, True]])
    expected = mix(layers, in_use).reconstruction.flatten(2).mT
    torch.testing.assert_close(mix_pixels(layers.flatten(3).mT, in_use), expected)
