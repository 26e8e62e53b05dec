"""Adjusted Rand index (Hubert & Arabie, 1985) of each image of a batch."""

from __future__ import annotations

import torch
from jaxtyping import Float64, Int
from torch import Tensor


def adjusted_rand_index(table: Int[Tensor, "b segments slots"], ignored: int = 0) -> Float64[Tensor, " b"]:
    """Agreement of two partitions of the pixels, 1 where they are the same, about 0 where they are unrelated.

    Pixels of the first `ignored` true labels are left out. NaN for an image where that leaves none.
    """
    counts = table[:, ignored:].double()
    pixels = counts.sum((1, 2))
    together = counts.square().sum((1, 2))
    both = together - pixels
    only_predicted = counts.sum(1).square().sum(1) - together
    only_true = counts.sum(2).square().sum(1) - together
    neither = pixels.square() - only_predicted - only_true - together
    agreement = 2 * (both * neither - only_true * only_predicted)
    chance = (both + only_true) * (only_true + neither) + (both + only_predicted) * (only_predicted + neither)
    score = torch.where((only_true == 0) & (only_predicted == 0), torch.ones_like(chance), agreement / chance)
    return torch.where(pixels > 0, score, torch.nan)
