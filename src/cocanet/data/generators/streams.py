"""Counter-based random numbers: draw `j` of sample `i` of a seed, for many samples in one NumPy call.

Hashing (seed, sample, draw) gives every sample a stream of its own, whatever the count, order, worker and batch. A
NumPy generator per sample would cost more than a whole Tetrominoes image. The hash is SplitMix64's finaliser (Steele,
Lea & Flood 2014).
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int, UInt64

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mix(words: UInt64[np.ndarray, "*shape"]) -> UInt64[np.ndarray, "*shape"]:
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(words ^ (words >> np.uint64(31)))


def uniforms(seed: int, samples: Int[np.ndarray, " b"], *, first: int, draws: int) -> Float64[np.ndarray, "b {draws}"]:
    """Draws `first` … `first + draws - 1` of each sample's stream, uniform on [0, 1)."""
    start = _mix(np.array([seed % 2**64], dtype=np.uint64) + _GOLDEN)
    streams = _mix(start + samples.astype(np.uint64) * _GOLDEN)
    counters = np.arange(first + 1, first + draws + 1, dtype=np.uint64) * _GOLDEN
    words = _mix(streams[:, None] + counters[None, :])
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def pick(uniform: Float64[np.ndarray, "*shape"], choices: np.ndarray | int) -> Int[np.ndarray, "*shape"]:
    """Integers 0 … choices - 1 from uniforms; `choices` may differ from element to element."""
    return (uniform * choices).astype(np.int64)
