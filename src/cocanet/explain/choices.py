"""What every level chose: each anchor, what it took, and what it left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from cocanet.explain.nodes import anchor_positions, spread
from cocanet.models.output import Level


class Choices(NamedTuple):
    """One level's choices over the cells of one image, step by step; the last cluster has no anchor."""

    scopes: Float[np.ndarray, "k h w"]
    """What was still to be had before each step."""
    affinities: Float[np.ndarray, "k-1 h w"]
    clusters: Float[np.ndarray, "k h w"]
    anchors: Float[np.ndarray, "w k-1 2"]
    """Row and column of every window's anchors; not a number where no anchor was wanted any more."""

    @property
    def steps(self) -> int:
        """Anchors in use, and the rest."""
        return 1 + int((~np.isnan(self.anchors[..., 0])).any(0).sum())


def level_choices(levels: Sequence[Level], number: int) -> Choices:
    """What level `number`, from 0, chose in the one image that the levels are of."""
    clusters = levels[number].clusters
    taken = clusters.masks.cumsum(2)
    scopes = 1 - torch.cat((torch.zeros_like(taken[:, :, :1]), taken[:, :, :-1]), 2)
    wanted = clusters.in_use[0, :, 1:, None]
    parts = (scopes, clusters.affinities, clusters.masks)
    scope, affinity, cluster = (_array(spread(levels, number, part)[0]) for part in parts)
    return Choices(scope, affinity, cluster, _array(anchor_positions(levels, number)[0].where(wanted, torch.nan)))


def _array(x: Float[Tensor, "*shape"]) -> Float[np.ndarray, "*shape"]:
    return np.asarray(x.detach().cpu().numpy())
