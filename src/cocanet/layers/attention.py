"""Feature refinement: ViT-22B blocks, attention and MLP in parallel, queries and keys normalised (Sec. 3.1.1)."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor, nn

from cocanet.config import NormScope
from cocanet.config.windows import Window, grid_after
from cocanet.functional.windows import unpartition
from cocanet.layers.linear import MLP, linear
from cocanet.layers.norm import GroupNorm


class Context(NamedTuple):
    """Keys and values that the queries of each group attend to; `visible` says which, where not all."""

    keys: Float[Tensor, "b w m d"]
    values: Float[Tensor, "b w m d"]
    visible: Bool[Tensor, "w n m"] | None


class WindowReach(nn.Module):
    """Every node attends to the nodes of its own window."""

    def forward(self, keys: Float[Tensor, "b w n d"], values: Float[Tensor, "b w n d"]) -> Context:
        return Context(keys, values, None)


class GlobalReach(nn.Module):
    """Every node attends to all nodes of the image."""

    def forward(self, keys: Float[Tensor, "b w n d"], values: Float[Tensor, "b w n d"]) -> Context:
        windows = keys.shape[1]
        keys, values = (rearrange(x, "b w n d -> b 1 (w n) d").expand(-1, windows, -1, -1) for x in (keys, values))
        return Context(keys, values, None)


class NeighbourhoodReach(nn.Module):
    """Every node attends to the `kernel` × `kernel` cells around its own, cut off at the image's border.

    The queries stay in their windows; each window's keys are the window with a halo, taken once, and a mask leaves
    each query its own neighbourhood. That needs far less memory than a copy of the neighbourhood for every query.
    """

    visible: Tensor

    def __init__(self, kernel: int, window: Window, grid: tuple[int, int], per_cell: int) -> None:
        super().__init__()
        if kernel % 2 == 0:
            raise ValueError(f"a neighbourhood has an odd side, so that its query is in the middle; got {kernel}")
        self.halo, self.window, self.grid = kernel // 2, window, grid
        self.register_buffer("visible", self._visible(per_cell), persistent=False)

    def forward(self, keys: Float[Tensor, "b w n d"], values: Float[Tensor, "b w n d"]) -> Context:
        return Context(self._with_halo(keys), self._with_halo(values), self.visible)

    def _with_halo(self, nodes: Float[Tensor, "b w n d"]) -> Float[Tensor, "b w m d"]:
        cells = unpartition(nodes, self.window, self.grid)
        padded = F.pad(cells, (0, 0, 0, 0, self.halo, self.halo, self.halo, self.halo))
        (height, width), reach = self.window, 2 * self.halo
        tiles = padded.unfold(1, height + reach, height).unfold(2, width + reach, width)
        return rearrange(tiles, "b gr gc c d h v -> b (gr gc) (h v c) d")

    def _visible(self, per_cell: int) -> Bool[Tensor, "w n m"]:
        (height, width), halo = self.window, self.halo
        rows, columns = grid_after(self.grid, self.window)

        def along(side: int, windows: int) -> Bool[Tensor, "windows side reach"]:
            offset = torch.arange(side + 2 * halo) - halo
            near = (offset - torch.arange(side)[:, None]).abs() <= halo
            cell = torch.arange(windows)[:, None] * side + offset
            return near & ((cell >= 0) & (cell < windows * side))[:, None]

        both = along(height, rows)[:, None, :, None, :, None] & along(width, columns)[None, :, None, :, None, :]
        cells = rearrange(both, "gr gc i j h v -> (gr gc) (i j) (h v)")
        return cells.repeat_interleave(per_cell, 1).repeat_interleave(per_cell, 2)


Reach = WindowReach | GlobalReach | NeighbourhoodReach
"""Which nodes a node attends to."""


class RefineBlock(nn.Module):
    """X + W_O·attention(norm(W_Q X̂), norm(W_K X̂), W_V X̂) + MLP(X̂), with X̂ = norm(X)."""

    def __init__(self, dim: int, heads: int, reach: Reach, norm: NormScope) -> None:
        super().__init__()
        if dim % heads:
            raise ValueError(f"{dim} features do not divide among {heads} attention heads")
        self.heads, self.reach = heads, reach
        self.norm = GroupNorm(dim, norm)
        self.query, self.key, self.value = (linear(dim, dim, bias=False) for _ in range(3))
        self.out = linear(dim, dim)
        self.mlp = MLP(dim, dim, dim)

    def forward(self, nodes: Float[Tensor, "b w n d"]) -> Float[Tensor, "b w n d"]:
        x = self.norm(nodes)
        context = self.reach(self.norm(self.key(x)), self.value(x))
        attended = attend(self.norm(self.query(x)), context, self.heads)
        out: Tensor = nodes + self.out(attended) + self.mlp(x)
        return out


def attend(queries: Float[Tensor, "b w n d"], context: Context, heads: int) -> Float[Tensor, "b w n d"]:
    """Multi-head attention of the queries of each window to their context."""
    batch, windows = queries.shape[:2]
    query, key, value = (
        rearrange(x.to(queries.dtype), "b w n (h d) -> (b w) h n d", h=heads)
        for x in (queries, context.keys, context.values)
    )
    visible = context.visible
    if visible is not None:
        visible = visible.expand(batch, *visible.shape).flatten(0, 1).unsqueeze(1)
    mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=visible)
    return rearrange(mixed, "(b w) h n d -> b w n (h d)", b=batch, w=windows)
