"""Sequential clustering (Alg. 1): anchors one after the other, each concealing what it explains."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


class Anchors(NamedTuple):
    """The nodes chosen in order, and whether each was still wanted: all of them, unless the stop rule ended early."""

    nodes: Int[Tensor, "*batch a"]
    wanted: Bool[Tensor, "*batch a"]


def choose_anchors(
    scores: Float[Tensor, "*batch u"],
    candidates: Int[Tensor, " u"],
    affinity_of: Callable[[Int[Tensor, "*batch 1"]], Float[Tensor, "*batch 1 n"]],
    count: int,
    scope_threshold: float = 0.0,
) -> Anchors:
    """Choose up to `count` anchors: each the best-scored candidate that is still in scope (lines 2-6 of Alg. 1).

    `affinity_of` gives the affinity mask of one node per window. With `scope_threshold`, an anchor is wanted only
    while the scope's mean is at least that share. Nothing here has a gradient: scores only decide which rows count.
    """
    nodes, wanted = [], []
    scope = torch.ones((), dtype=scores.dtype, device=scores.device).expand(*scores.shape[:-1], 1)
    in_scope = scores
    for _ in range(count):
        wanted.append(scope.mean(-1) >= scope_threshold)
        anchor = candidates[in_scope.argmax(-1, keepdim=True)]
        nodes.append(anchor)
        scope = scope * (1 - affinity_of(anchor).squeeze(-2))
        in_scope = scores * scope[..., candidates]
    if not nodes:
        empty = candidates.new_zeros(*scores.shape[:-1], 0)
        return Anchors(empty, empty.bool())
    return Anchors(torch.cat(nodes, -1), torch.stack(wanted, -1))


def break_stick(
    affinities: Float[Tensor, "*batch a n"], wanted: Bool[Tensor, "*batch a"]
) -> Float[Tensor, "*batch a+1 n"]:
    """Cluster masks Π_m = Z·Λ_m with Z ← Z·(1 − Λ_m), and what remains of the scope as the last (Eq. 5).

    The first unwanted anchor takes the whole remainder instead, and nothing is left for those after it.
    """
    taken = torch.where(wanted.unsqueeze(-1), affinities, torch.ones_like(affinities))
    scope = affinities.new_ones(*affinities.shape[:-2], affinities.shape[-1])
    masks = []
    for part in taken.unbind(-2):
        masks.append(scope * part)
        scope = scope * (1 - part)
    return torch.stack([*masks, scope], -2)


def clusters_in_use(wanted: Bool[Tensor, "*batch a"]) -> Bool[Tensor, "*batch a+1"]:
    """Which of the masks of `break_stick` are clusters, the remainder included, and which are mere padding."""
    return torch.nn.functional.pad(wanted, (1, 0), value=True)
