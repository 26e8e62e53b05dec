"""Random geometry, as tensors and as the reference's nodes."""

from __future__ import annotations

import torch

from cocanet.functional.geometry import Geometry
from tests.reference.equations import Node


def random_geometry(nodes: int, seed: int) -> Geometry:
    """Nodes of any area, density and inertia, anywhere: what a level above the first may meet."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        return torch.rand(*shape, dtype=torch.float64, generator=generator)

    return Geometry(draw(nodes) * 20 + 0.1, draw(nodes) + 0.01, draw(nodes) * 30, draw(nodes, 2) * 16)


def as_nodes(geometry: Geometry) -> list[Node]:
    return [
        Node(*(float(x) for x in values))
        for values in zip(*geometry[:3], geometry.position[:, 0], geometry.position[:, 1], strict=True)
    ]
