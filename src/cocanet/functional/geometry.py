"""Physical attributes of nodes and clusters (Sec. 3.1.4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from cocanet.config import InertiaRule
from cocanet.config.windows import Window
from cocanet.functional.pixels import PIXEL_INERTIA
from cocanet.functional.windows import partition

EMPTY = 1e-8
"""Smallest mass for which a centre of mass is defined."""


class Geometry(NamedTuple):
    """Area, density, moment of inertia about the own centre, and centre in pixels (row, column)."""

    area: Float[Tensor, "*nodes"]
    density: Float[Tensor, "*nodes"]
    inertia: Float[Tensor, "*nodes"]
    position: Float[Tensor, "*nodes 2"]

    @property
    def mass(self) -> Float[Tensor, "*nodes"]:
        return self.area * self.density

    def each(self, change: Callable[[Tensor], Tensor]) -> Geometry:
        """The same change to every field, such as a new arrangement of the nodes."""
        return Geometry(*map(change, self))


def pixel_geometry(
    height: int, width: int, device: torch.device | None = None, dtype: torch.dtype = torch.float32
) -> Geometry:
    """Geometry of an image's pixels: unit squares of density 1."""
    lines = [torch.arange(side, dtype=dtype, device=device) for side in (height, width)]
    rows, columns = torch.meshgrid(*lines, indexing="ij")
    ones = torch.ones_like(rows)
    return Geometry(ones, ones, ones * PIXEL_INERTIA, torch.stack((rows, columns), -1))


def partition_geometry(grid: Geometry, window: Window) -> Geometry:
    """Geometry of the nodes of each window of a grid."""
    fields = torch.cat((torch.stack((grid.area, grid.density, grid.inertia), -1), grid.position), -1)
    area, density, inertia, row, column = partition(fields, window).unbind(-1)
    return Geometry(area, density, inertia, torch.stack((row, column), -1))


def squared_offsets(
    centres: Float[Tensor, "*#batch m 2"], positions: Float[Tensor, "*#batch n 2"]
) -> Float[Tensor, "*batch m n"]:
    """Δ_ij: the squared distance of each node from each centre, one axis at a time."""
    along = [a.unsqueeze(-1) - b.unsqueeze(-2) for a, b in zip(centres.unbind(-1), positions.unbind(-1), strict=True)]
    return along[0].square() + along[1].square()


def pool_geometry(
    masks: Float[Tensor, "*#batch k n"], nodes: Geometry, rule: InertiaRule = "parallel-axis"
) -> Geometry:
    """Geometry of clusters from that of their nodes (aggregation equations of the supplement).

    Mass goes with the square of the mask. The moment of inertia has three readings:

    - `printed`: ΣΠI, as in the paper. A scattered cluster then looks as compact as a disc on the next level.
    - `released`: ΣΠDI plus the parallel-axis term, as in the released code. Faint clusters look too compact.
    - `parallel-axis`, ours: ΣΠI plus the parallel-axis term about the new centre.

    A cluster without mass is centred on its mask, and one without a mask on its window.
    """
    masks = masks.detach()
    area, inertia = masks * nodes.area.unsqueeze(-2), masks * nodes.inertia.unsqueeze(-2)
    mass = masks * area * nodes.density.unsqueeze(-2)
    if rule == "released":
        inertia = inertia * nodes.density.unsqueeze(-2)
    position = _centre(masks, mass, nodes.position)
    total_area, total_mass, total_inertia = area.sum(-1), mass.sum(-1), inertia.sum(-1)
    if rule != "printed":
        total_inertia = total_inertia + (mass * squared_offsets(position, nodes.position)).sum(-1)
    return Geometry(
        area=total_area,
        density=total_mass / total_area.clamp(min=EMPTY),
        inertia=total_inertia,
        position=position,
    )


def _centre(
    masks: Float[Tensor, "*#batch k n"], mass: Float[Tensor, "*batch k n"], position: Float[Tensor, "*#batch n 2"]
) -> Float[Tensor, "*batch k 2"]:
    weights = torch.where(mass.sum(-1, keepdim=True) > EMPTY, mass, masks)
    weights = torch.where(weights.sum(-1, keepdim=True) > EMPTY, weights, torch.ones_like(weights))
    return (weights / weights.sum(-1, keepdim=True)) @ position
