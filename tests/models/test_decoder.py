import pytest
import torch
from einops import rearrange, repeat
from torch.autograd import gradcheck

from cocanet.config import ConvConfig, DecoderConfig
from cocanet.models.decoder import BroadcastConv, BroadcastDecoder, mix


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
    painting = mix(layers, in_use)
    assert (painting.masks[0, 2] == 0).all()
    fewer = mix(layers[:1, :2], in_use[:1, :2])
    torch.testing.assert_close(painting.mixture[:1], fewer.mixture)


@pytest.mark.parametrize("frame", ["image", "slot"])
@pytest.mark.parametrize("few", [1, 4, 100])
def test_without_gradients_a_few_slots_are_painted_at_a_time_and_unused_ones_not_at_all(frame, few, monkeypatch):
    torch.manual_seed(0)
    decoder = BroadcastDecoder(DecoderConfig((6, 8), (ConvConfig(6, 3), ConvConfig(4, 3)), octaves=2, frame=frame), 5)
    slots, in_use = torch.randn(3, 4, 5), torch.tensor([[True] * 4, [True, False, False, False], [True] * 3 + [False]])
    centres = torch.randint(0, 6, (3, 4, 2)) if frame == "slot" else None
    expected = decoder(slots, in_use, centres)
    painted = []
    whole = decoder._paint
    monkeypatch.setattr(decoder, "_paint", lambda slots, *rest: painted.append(len(slots)) or whole(slots, *rest))
    decoder.at_once = few
    with torch.no_grad():
        found = decoder(slots, in_use, centres)
    assert sum(painted) == 8
    assert max(painted) == min(few, 8)
    torch.testing.assert_close(found.mixture, expected.mixture)
    torch.testing.assert_close(found.masks, expected.masks)
    torch.testing.assert_close(found.slot_images[in_use], expected.slot_images[in_use])
    assert (found.slot_images[~in_use] == 0.5).all()


@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (5, 2)])
def test_in_their_own_frame_slots_paint_the_same_wherever_they_are(kernel, stride):
    torch.manual_seed(0)
    config = DecoderConfig((16, 16), (ConvConfig(6, kernel, stride), ConvConfig(4, 3)), octaves=2, frame="slot")
    decoder = BroadcastDecoder(config, dim=5)
    slot, in_use = torch.randn(5).expand(1, 2, 5), torch.ones(1, 2, dtype=torch.bool)
    here, there = decoder(slot, in_use, torch.tensor([[[7, 6], [9, 9]]])).slot_images[0]
    rows, columns = 2 * stride, 3 * stride
    moved = here.roll((rows, columns), (1, 2))
    inner = slice(5 * stride, -5 * stride)
    torch.testing.assert_close(there[:, inner, inner], moved[:, inner, inner])
    assert not torch.allclose(there[:, inner, inner], here[:, inner, inner], atol=1e-3)


def test_the_encoders_masks_as_a_prior_are_added_to_the_logits():
    config = DecoderConfig((4, 6), (ConvConfig(8, 3), ConvConfig(4, 3)), prior=0.7)
    torch.manual_seed(0)
    decoder = BroadcastDecoder(config, 5)
    slots, in_use = torch.randn(2, 3, 5), torch.tensor([[True] * 3, [True, True, False]])
    found = torch.randn(2, 3, 4, 6).softmax(1)
    without, begun = decoder(slots, in_use), decoder(slots, in_use, found=found)
    expected = without.masks * found.clamp(min=1e-3) ** 0.7
    torch.testing.assert_close(begun.masks, expected / expected.sum(1, keepdim=True))
    torch.testing.assert_close(begun.slot_images, without.slot_images)
    torch.testing.assert_close(begun.mixture, (begun.masks.unsqueeze(2) * begun.slot_images).sum(1))
    plain = BroadcastDecoder(DecoderConfig((4, 6), config.layers), 5)
    plain.load_state_dict(decoder.state_dict())
    assert torch.equal(plain(slots, in_use, found=found).masks, without.masks)
