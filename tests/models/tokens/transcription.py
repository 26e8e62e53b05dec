"""The token decoder slowly, in float64 NumPy loops, from the equations of SLATE."""

from __future__ import annotations

import math

import numpy as np

from tests.reference.layers import Weights


def layer_norm(x: np.ndarray, w: Weights, name: str) -> np.ndarray:
    rows = [(row - row.mean()) / math.sqrt(row.var() + 1e-5) for row in x]
    return np.array(rows) * w[f"{name}.weight"] + w[f"{name}.bias"]


def attention(x: np.ndarray, known: np.ndarray, w: Weights, name: str, heads: int, causal: bool) -> np.ndarray:
    """One query, one head, one key at a time."""
    query = x @ w[f"{name}.query.weight"].T
    key, value = (known @ w[f"{name}.{part}.weight"].T for part in ("key", "value"))
    width = query.shape[1] // heads
    mixed = np.zeros_like(query)
    for head in range(heads):
        own = slice(head * width, (head + 1) * width)
        for n in range(len(query)):
            seen = range(n + 1) if causal else range(len(known))
            scores = np.array([query[n, own] @ key[m, own] / math.sqrt(width) for m in seen])
            shares = np.exp(scores - scores.max())
            for m, share in zip(seen, shares / shares.sum(), strict=True):
                mixed[n, own] += share * value[m, own]
    return mixed @ w[f"{name}.out.weight"].T


def block(x: np.ndarray, slots: np.ndarray, w: Weights, heads: int, first: bool) -> np.ndarray:
    normed = layer_norm(x, w, "norms.0")
    x = normed if first else x
    x = x + attention(normed, normed, w, "tokens", heads, causal=True)
    x = x + attention(layer_norm(x, w, "norms.1"), slots, w, "slots", heads, causal=False)
    hidden = np.maximum(layer_norm(x, w, "norms.2") @ w["inner.weight"].T + w["inner.bias"], 0)
    return x + hidden @ w["outer.weight"].T + w["outer.bias"]


def loss(decoded: np.ndarray, images: np.ndarray, logits: np.ndarray, tokens: np.ndarray) -> float:
    total = 0.0
    for image in range(len(images)):
        for got, wanted in zip(decoded[image].ravel(), images[image].ravel(), strict=True):
            total += (got - wanted) ** 2
        for scores, token in zip(logits[image], tokens[image].ravel(), strict=True):
            total += math.log(sum(math.exp(score) for score in scores)) - scores[token]
    return total / len(images)
