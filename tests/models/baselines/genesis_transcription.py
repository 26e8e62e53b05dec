"""The mathematics of GENESIS-v2 in NumPy loops and float64, one number at a time."""

from __future__ import annotations

import math

import numpy as np

from tests.models.baselines.transcription import sigmoid
from tests.reference.layers import conv, transposed_conv


def break_sticks(colours: np.ndarray, scores: np.ndarray, width: float, slots: int, kernel: str) -> np.ndarray:
    """Masks (slots × pixels) of one image with colours (pixels × channels)."""
    pixels = len(colours)
    scope = [1.0] * pixels
    masks = np.zeros((slots, pixels))
    for slot in range(slots - 1):
        seed = max(range(pixels), key=lambda n: scores[n] * scope[n])
        for n in range(pixels):
            squared = sum((a - b) ** 2 for a, b in zip(colours[n], colours[seed], strict=True))
            alpha = {
                "gaussian": math.exp(-squared / width),
                "laplacian": math.exp(-math.sqrt(squared) / width),
                "epanechnikov": max(0.0, 1 - squared / width),
            }[kernel]
            alpha = min(0.99, max(0.01, alpha))
            masks[slot, n] = scope[n] * alpha
            scope[n] *= 1 - alpha
    masks[-1] = scope
    return masks


def normal_density(x: float, mean: float, deviation: float) -> float:
    return math.exp(-((x - mean) ** 2) / (2 * deviation**2)) / (deviation * math.sqrt(2 * math.pi))


def mixture_error(image: np.ndarray, slot_images: np.ndarray, masks: np.ndarray, deviation: float) -> float:
    """Negative log-likelihood of one image (3 × h × w) with slot images (k × 3 × h × w) and masks (k × h × w)."""
    error = 0.0
    for channel, row, column in np.ndindex(*image.shape):
        likelihood = sum(
            masks[k, row, column]
            * normal_density(image[channel, row, column], slot_images[k, channel, row, column], deviation)
            for k in range(len(masks))
        )
        error -= math.log(likelihood)
    return error


def prior(slots: np.ndarray, weights: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of each slot (k × d) of one image, given those before it."""
    count, dim = slots.shape
    hidden, cell = np.zeros(4 * dim), np.zeros(4 * dim)
    means, deviations = [np.zeros(dim)], [np.ones(dim)]
    for slot in slots[: count - 1]:
        gates = weights["reader.weight_ih_l0"] @ slot + weights["reader.bias_ih_l0"]
        gates = gates + weights["reader.weight_hh_l0"] @ hidden + weights["reader.bias_hh_l0"]
        enter, forget, candidate, leave = np.split(gates, 4)
        cell = sigmoid(forget) * cell + sigmoid(enter) * np.tanh(candidate)
        hidden = sigmoid(leave) * np.tanh(cell)
        out = weights["head.weight"] @ hidden + weights["head.bias"]
        means.append(np.tanh(out[:dim]))
        deviations.append(sigmoid(out[dim:] + 4) + 1e-4)
    return np.array(means), np.array(deviations)


def divergence(sample: np.ndarray, posterior: tuple[np.ndarray, np.ndarray], other: tuple[np.ndarray, np.ndarray]):
    total = 0.0
    for place in np.ndindex(*sample.shape):
        total += math.log(normal_density(sample[place], posterior[0][place], posterior[1][place]))
        total -= math.log(normal_density(sample[place], other[0][place], other[1][place]))
    return total


def posterior(features: np.ndarray, masks: np.ndarray, weights: dict[str, np.ndarray]):
    """Mean and deviation of each slot, from features (2d × pixels) and masks (k × pixels)."""
    means, deviations = [], []
    for mask in masks:
        pooled = sum(mask[n] * features[:, n] for n in range(features.shape[1])) / (mask.sum() + 1e-5)
        x = (pooled - pooled.mean()) / np.sqrt(pooled.var() + 1e-5)
        x = x * weights["head.0.weight"] + weights["head.0.bias"]
        x = np.maximum(weights["head.1.weight"] @ x + weights["head.1.bias"], 0)
        mean, spread = np.split(weights["head.3.weight"] @ x + weights["head.3.bias"], 2)
        means.append(mean)
        deviations.append(np.log1p(np.exp(spread + 0.5)) + 1e-8)
    return np.array(means), np.array(deviations)


def decode(slot: np.ndarray, weights: dict[str, np.ndarray], cells: int) -> np.ndarray:
    """Three channels of colour and one of the mask, before their squashing, from one slot."""
    x = np.zeros((len(slot) + 2, cells, cells))
    for row, column in np.ndindex(cells, cells):
        x[:, row, column] = [*slot, -1 + 2 * row / (cells - 1), -1 + 2 * column / (cells - 1)]
    for layer in (0, 3, 6, 9):
        x = group_norm(transposed_conv(x, weights, f"layers.{layer}", 2), weights, f"layers.{layer + 1}", 8)
        x = np.maximum(x, 0)
    return conv(x, weights, "layers.12")


def group_norm(x: np.ndarray, weights: dict[str, np.ndarray], name: str, groups: int) -> np.ndarray:
    """Channels in groups of neighbours, each normalised over all its pixels."""
    out = [(group - group.mean()) / math.sqrt(group.var() + 1e-5) for group in np.split(x, groups)]
    return np.concatenate(out) * weights[f"{name}.weight"][:, None, None] + weights[f"{name}.bias"][:, None, None]


def geco(errors: list[float], goal: float, step: float, beta: float, low: float, high: float) -> list[float]:
    """β after each of a run of errors."""
    average, betas = None, []
    for error in errors:
        average = error if average is None else 0.99 * average + 0.01 * error
        speed = 10 if goal > average else 1
        beta = min(high, max(low, beta * math.exp(speed * step * (goal - average))))
        betas.append(beta)
    return betas
