"""One iteration of each baseline for one image, in float64 loops."""

from __future__ import annotations

import math

import numpy as np

from tests.reference.layers import Weights, conv


def layer_norm(x: np.ndarray, w: Weights, name: str, eps: float) -> np.ndarray:
    mean = sum(x) / len(x)
    variance = sum((value - mean) ** 2 for value in x) / len(x)
    return (
        np.array([(value - mean) / math.sqrt(variance + eps) for value in x]) * w[f"{name}.weight"] + w[f"{name}.bias"]
    )


def mlp(x: np.ndarray, w: Weights, name: str) -> np.ndarray:
    inner = np.maximum(w[f"{name}.inner.weight"] @ x + w[f"{name}.inner.bias"], 0)
    return w[f"{name}.outer.weight"] @ inner + w[f"{name}.outer.bias"]


def convolutions(image: np.ndarray, w: Weights, name: str, strides: tuple[int, ...], *, rectify_last: bool):
    """Convolutions, a ReLU after each, or after each but the last."""
    for layer, stride in enumerate(strides):
        image = conv(image, w, f"{name}.{layer}", stride)
        if rectify_last or layer < len(strides) - 1:
            image = np.maximum(image, 0)
    return image


def edge_embedding(row: int, column: int, size: tuple[int, int], w: Weights, name: str) -> np.ndarray:
    """Embedding of a cell's distances from the top, bottom, left and right edge, as shares of the way."""
    y, x = row / (size[0] - 1), column / (size[1] - 1)
    return w[f"{name}.weight"] @ np.array([y, 1 - y, x, 1 - x]) + w[f"{name}.bias"]


def gru(update: np.ndarray, hidden: np.ndarray, w: Weights, name: str) -> np.ndarray:
    """Cho et al. with the reset gate after the product, as cuDNN and Keras have it."""
    from_input = np.split(w[f"{name}.weight_ih"] @ update + w[f"{name}.bias_ih"], 3)
    from_hidden = np.split(w[f"{name}.weight_hh"] @ hidden + w[f"{name}.bias_hh"], 3)
    reset = sigmoid(from_input[0] + from_hidden[0])
    keep = sigmoid(from_input[1] + from_hidden[1])
    candidate = np.tanh(from_input[2] + reset * from_hidden[2])
    return (1 - keep) * candidate + keep * hidden


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def softmax_over_slots(logits: np.ndarray) -> np.ndarray:
    out = np.zeros_like(logits)
    for n in range(logits.shape[1]):
        total = sum(math.exp(value) for value in logits[:, n])
        for k in range(len(logits)):
            out[k, n] = math.exp(logits[k, n]) / total
    return out


def update(slot: np.ndarray, taken: np.ndarray, w: Weights, name: str, eps: float) -> np.ndarray:
    carried = gru(taken, slot, w, f"{name}gru")
    return carried + mlp(layer_norm(carried, w, f"{name}norm", eps), w, f"{name}mlp")


def slot_attention(
    inputs: np.ndarray, slots: np.ndarray, w: Weights, eps: float, *, damped: bool
) -> tuple[np.ndarray, np.ndarray]:
    """New slots and attention; `damped` is BO-QSA's weighting."""
    keys = [w["key.weight"] @ x for x in inputs]
    values = [w["value.weight"] @ x for x in inputs]
    logits = np.zeros((len(slots), len(inputs)))
    for k, slot in enumerate(slots):
        query = w["query.weight"] @ layer_norm(slot, w, "norm", eps) / math.sqrt(len(slot))
        for n, key in enumerate(keys):
            logits[k, n] = query @ key
    attention = softmax_over_slots(logits)
    out = []
    for k, slot in enumerate(slots):
        if damped:
            share = [a / (sum(attention[k]) + 1) for a in attention[k]]
        else:
            share = [(a + 1e-8) / sum(a + 1e-8 for a in attention[k]) for a in attention[k]]
        taken = sum(s * value for s, value in zip(share, values, strict=True))
        out.append(update(slot, taken, w, "update.", eps))
    return np.array(out), attention


def invariant_round(
    features: np.ndarray,
    grid: np.ndarray,
    slots: np.ndarray,
    positions: np.ndarray,
    scales: np.ndarray,
    w: Weights,
    scale_unit: float | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """New slots, positions, scales, and the attention that led to them."""
    eps, count = 1e-6, len(slots)
    inputs = [layer_norm(x, w, "attention.norm_inputs", eps) for x in features]
    logits, values = np.zeros((count, len(grid))), np.zeros((count, len(grid), slots.shape[1]))
    for k, slot in enumerate(slots):
        normalised = layer_norm(slot, w, "attention.norm_slots", eps)
        query = w["attention.query.weight"] @ normalised / math.sqrt(len(slot))
        for n, x in enumerate(inputs):
            relative = grid[n] - positions[k]
            if scale_unit is not None:
                relative = relative / scale_unit / scales[k]
            embedded = w["attention.encoder.position.weight"] @ relative + w["attention.encoder.position.bias"]
            key, values[k, n] = (
                mlp(
                    layer_norm(w[f"attention.{name}.weight"] @ x + embedded, w, "attention.encoder.norm", eps),
                    w,
                    "attention.encoder.mlp",
                )
                for name in ("key", "value")
            )
            logits[k, n] = query @ key
    attention = softmax_over_slots(logits)
    new_slots, new_positions, new_scales = [], [], []
    for k, slot in enumerate(slots):
        share = attention[k] / (sum(attention[k]) + 1e-8)
        taken = sum(share[n] * values[k, n] for n in range(len(grid)))
        centre = sum(share[n] * grid[n] for n in range(len(grid)))
        spread = sum((share[n] + 1e-8) * (grid[n] - centre) ** 2 for n in range(len(grid)))
        new_slots.append(update(slot, taken, w, "update.", eps))
        new_positions.append(centre)
        new_scales.append(np.clip(np.sqrt(spread), 0.001, 2))
    return np.array(new_slots), np.array(new_positions), np.array(new_scales), attention
