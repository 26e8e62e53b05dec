"""From slots to pictures and masks, against the slow transcription."""

import numpy as np
import pytest
import torch

from tests.models.baselines import rivals
from tests.models.baselines.transcription import conv, edge_embedding, softmax_over_slots, transposed_conv, weights


def enlarge(x: np.ndarray, w: dict[str, np.ndarray], name: str, stride: int) -> np.ndarray:
    return conv(x, w, name) if stride == 1 else transposed_conv(x, w, name, stride)


def random_slots(*widths: int) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(3)
    return tuple(torch.randn(2, 3, width, generator=generator) for width in widths)


def assert_painted(painting, image: int, layers: list[np.ndarray], darkest: float) -> None:
    """Colours of the first three channels, where `darkest` is black; masks of the fourth, shared among slots."""
    layers = np.array(layers)
    colours = (layers[:, :3] - darkest) / (1 - darkest)
    masks = softmax_over_slots(layers[:, 3].reshape(len(layers), -1)).reshape(layers[:, 3].shape)
    mixture = sum(colour * mask for colour, mask in zip(colours, masks, strict=True))
    for found, expected in zip(painting, (colours, masks, mixture), strict=True):
        np.testing.assert_allclose(found[image].detach(), expected, atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize(("broadcast", "strides"), [((16, 8), (1, 1, 1)), ((8, 4), (2, 1)), ((4, 2), (2, 2, 1))])
@pytest.mark.parametrize("make", [rivals.slot_attention, rivals.bo_qsa])
def test_broadcast_decoder(make, broadcast, strides):
    config = make(broadcast=broadcast, decoder_strides=strides)
    model = rivals.make(config)
    w, (slots,) = weights(model.decoder), random_slots(config.dim)
    painting = model.paint(slots)
    names = ["first.conv", *(f"rest.{layer}" for layer in range(len(strides)))]
    for image in range(2):
        layers = []
        for slot in slots[image].double().numpy():
            x = np.zeros((config.dim, *broadcast))
            for row, column in np.ndindex(*broadcast):
                x[:, row, column] = slot + edge_embedding(row, column, broadcast, w, "position.embed")
            for name, stride in zip(names[:-1], strides, strict=True):
                x = np.maximum(enlarge(x, w, name, stride), 0)
            layers.append(conv(x, w, names[-1]))
        assert_painted(painting, image, layers, darkest=-1)


@pytest.mark.parametrize(
    ("broadcast", "strides", "kernel", "scale_unit"),
    [
        ((8, 4), (2, 1), 5, 5.0),
        ((4, 2), (2, 2, 1), 5, 2.0),
        ((16, 8), (1, 1, 1), 1, None),
        ((16, 8), (1, 1), 1, 5.0),
    ],
)
def test_relative_decoder(broadcast, strides, kernel, scale_unit):
    config = rivals.inv_sa(broadcast=broadcast, decoder_strides=strides, decoder_kernel=kernel, scale_unit=scale_unit)
    model = rivals.make(config)
    features, positions, scales = random_slots(config.dim, 2, 2)
    positions, scales = positions.tanh(), 0.1 + scales.abs()
    w, painting = weights(model.decoder), model.paint(torch.cat((features, positions, scales), -1))
    rows, columns = broadcast
    for image in range(2):
        layers = []
        parts = (part[image].double().numpy() for part in (features, positions, scales))
        for slot, position, scale in zip(*parts, strict=True):
            x = np.zeros((config.dim, *broadcast))
            for row, column in np.ndindex(*broadcast):
                relative = np.array([-1 + 2 * row / (rows - 1), -1 + 2 * column / (columns - 1)]) - position
                if scale_unit is not None:
                    relative = relative / scale_unit / scale
                x[:, row, column] = slot + w["position.weight"] @ relative + w["position.bias"]
            for layer, stride in enumerate(strides):
                x = np.maximum(enlarge(x, w, f"layers.{layer}", stride), 0)
            layers.append(conv(x, w, "head"))
        assert_painted(painting, image, layers, darkest=0)
