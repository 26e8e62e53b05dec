"""Physical attributes of nodes (Sec. 3.1.4): what a cluster's extent and position are."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from cocanet.config.windows import Window
from cocanet.functional.pixels import PIXEL_INERTIA
from cocanet.functional.windows import partition

EMPTY = 1e-8
"""A cluster of less mass than this has no centre of mass of its own."""


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


def pixel_geometry(height: int, width: int, device: torch.device | None = None) -> Geometry:
    """Geometry of an image's pixels: unit squares of density 1."""
    rows, columns = torch.meshgrid(
        torch.arange(height, dtype=torch.float32, device=device),
        torch.arange(width, dtype=torch.float32, device=device),
        indexing="ij",
    )
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


def pool_geometry(masks: Float[Tensor, "*#batch k n"], nodes: Geometry) -> Geometry:
    """Geometry of clusters from that of their nodes (aggregation equations of the supplement).

    Mass goes with the square of the mask. The inertia has the parallel-axis term about the new centre, which the
    printed sum lacks: without it a scattered cluster would look as compact as a disc on the next level. A cluster
    without mass lies where its mask lies, and one without a mask in the middle of the window.
    """
    masks = masks.detach()
    area, inertia = masks * nodes.area.unsqueeze(-2), masks * nodes.inertia.unsqueeze(-2)
    mass = masks * area * nodes.density.unsqueeze(-2)
    position = _centre(masks, mass, nodes.position)
    spread = squared_offsets(position, nodes.position)
    total_area, total_mass = area.sum(-1), mass.sum(-1)
    return Geometry(
        area=total_area,
        density=total_mass / total_area.clamp(min=EMPTY),
        inertia=inertia.sum(-1) + (mass * spread).sum(-1),
        position=position,
    )


def _centre(
    masks: Float[Tensor, "*#batch k n"], mass: Float[Tensor, "*batch k n"], position: Float[Tensor, "*#batch n 2"]
) -> Float[Tensor, "*batch k 2"]:
    weights = torch.where(mass.sum(-1, keepdim=True) > EMPTY, mass, masks)
    weights = torch.where(weights.sum(-1, keepdim=True) > EMPTY, weights, torch.ones_like(weights))
    return (weights / weights.sum(-1, keepdim=True)) @ position
