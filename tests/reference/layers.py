"""Layers as loops in float64, and weights by name."""

from __future__ import annotations

import numpy as np
from torch import nn

Weights = dict[str, np.ndarray]


def weights(module: nn.Module) -> Weights:
    return {name: tensor.detach().double().numpy() for name, tensor in module.state_dict().items()}


def conv(x: np.ndarray, w: Weights, name: str, stride: int = 1) -> np.ndarray:
    """Each output is a sum over the cells around its own, with zeros beyond the edge."""
    kernel, (_, height, width) = w[f"{name}.weight"], x.shape
    side = kernel.shape[-1]
    padded = np.pad(x, ((0, 0), (side // 2,) * 2, (side // 2,) * 2))
    out = np.zeros((len(kernel), height // stride, width // stride))
    for channel, row, column in np.ndindex(*out.shape):
        top, left = row * stride, column * stride
        out[channel, row, column] = (kernel[channel] * padded[:, top : top + side, left : left + side]).sum()
    return out + w[f"{name}.bias"][:, None, None]


def transposed_conv(x: np.ndarray, w: Weights, name: str, stride: int) -> np.ndarray:
    """Each cell adds its kernel, centred where the cell comes to lie; what falls beyond the edge is lost."""
    kernel, (_, height, width) = w[f"{name}.weight"], x.shape
    side, reach = kernel.shape[-1], kernel.shape[-1] // 2
    canvas = np.zeros((kernel.shape[1], height * stride + side, width * stride + side))
    for row, column in np.ndindex(height, width):
        top, left = row * stride, column * stride
        for channel, value in enumerate(x[:, row, column]):
            canvas[:, top : top + side, left : left + side] += value * kernel[channel]
    return canvas[:, reach:, reach:][:, : height * stride, : width * stride] + w[f"{name}.bias"][:, None, None]


def enlarge(x: np.ndarray, w: Weights, name: str, stride: int) -> np.ndarray:
    return conv(x, w, name) if stride == 1 else transposed_conv(x, w, name, stride)
