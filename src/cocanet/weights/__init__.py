"""Trained weights: one file format, the hub's layout beside it, and one way to open a model from any of them."""

from cocanet.weights.file import OPTIMISER, WeightsFile, load_into, read_weights, write_weights
from cocanet.weights.hub import read_pretrained, write_pretrained
from cocanet.weights.trained import Trained, is_shipped, open_model, shipped_names

__all__ = [
    "OPTIMISER",
    "Trained",
    "WeightsFile",
    "is_shipped",
    "load_into",
    "open_model",
    "read_pretrained",
    "read_weights",
    "shipped_names",
    "write_pretrained",
    "write_weights",
]
