import pytest
import torch
import torch.nn.functional as F

from cocanet.models.baselines.genesis_decoder import GenesisDecoder
from cocanet.models.baselines.unet import UNet
from tests.models.baselines.genesis.tiny import random

# In and out of each convolution, as multiples of c, for images of so many pixels; the image itself has 3 channels.
DOWN = {32: (1, 2, 2, 2), 64: (1, 1, 2, 2, 2), 128: (1, 1, 1, 2, 2, 2)}
UP = {
    32: ((4, 2), (4, 2), (4, 1), (2, 1)),
    64: ((4, 2), (4, 2), (4, 1), (2, 1), (2, 1)),
    128: ((4, 2), (4, 2), (4, 1), (2, 1), (2, 1), (2, 1)),
}


def block(x: torch.Tensor, weights: dict[str, torch.Tensor], name: str) -> torch.Tensor:
    x = F.conv2d(x, weights[f"{name}.0.weight"], padding=1)
    return F.relu(F.group_norm(x, 8, weights[f"{name}.1.weight"], weights[f"{name}.1.bias"]))


def transcription(x: torch.Tensor, weights: dict[str, torch.Tensor], blocks: int) -> torch.Tensor:
    """The specification line by line."""
    skips = []
    for n in range(blocks):
        skip = block(x, weights, f"down.{n}")
        skips.append(skip)
        x = skip if n == blocks - 1 else F.interpolate(skip, scale_factor=0.5, mode="nearest")
    shape, x = x.shape, x.flatten(1)
    for n in (0, 2, 4):
        x = F.relu(F.linear(x, weights[f"bottom.{n}.weight"], weights[f"bottom.{n}.bias"]))
    x = x.view(shape)
    for n in range(blocks):
        x = block(torch.cat((x, skips[-1 - n]), 1), weights, f"up.{n}")
        x = x if n == blocks - 1 else F.interpolate(x, scale_factor=2, mode="nearest")
    return x


@pytest.mark.parametrize("side", [32, 64, 128])
def test_layers_and_shape(side):
    unet = UNet(side, 8)
    down = [tuple(block[0].weight.shape[:2]) for block in unet.down]
    up = [tuple(block[0].weight.shape[:2]) for block in unet.up]
    into = [3, *(8 * n for n in DOWN[side][:-1])]
    assert down == [(8 * out, inputs) for out, inputs in zip(DOWN[side], into, strict=True)]
    assert up == [(8 * out, 8 * inputs) for inputs, out in UP[side]]
    assert unet.bottom[0].in_features == 4 * 4 * 16
    out = unet(torch.rand(2, 3, side, side))
    assert out.shape == (2, 8, side, side)
    assert out.min() >= 0


@pytest.mark.parametrize(("side", "blocks"), [(16, 3), (32, 4), (64, 5)])
def test_agrees_with_the_transcription(side, blocks):
    torch.manual_seed(0)
    unet, x = UNet(side, 8).double(), random(2, 3, side, side)
    torch.testing.assert_close(unet(x), transcription(x, dict(unet.state_dict()), blocks))


@pytest.mark.parametrize("side", [32, 64, 128])
def test_decoder_enlarges_a_grid_of_one_cell_in_sixteen(side):
    torch.manual_seed(0)
    decoder, slots = GenesisDecoder((side, side), 8), random(2, 3, 8).float()
    ours = decoder(slots)
    assert ours.shape == (2, 3, 4, side, side)
    cells = side // 16
    line = torch.linspace(-1, 1, cells)
    for image, slot in ((0, 0), (1, 2)):
        x = torch.empty(1, 10, cells, cells)
        x[0, :8] = slots[image, slot][:, None, None]
        x[0, 8], x[0, 9] = line[:, None], line[None]
        expected = decoder.layers(x)[0]
        torch.testing.assert_close(ours[image, slot], expected, atol=1e-5, rtol=1e-4)
