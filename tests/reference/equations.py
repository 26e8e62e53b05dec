"""The paper's equations for one window, written as they are read: one loop an index."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

FLOOR = 1e-5


@dataclass
class Node:
    area: float
    density: float
    inertia: float
    row: float
    column: float


def distances(features: np.ndarray, temperature: float, cells: int) -> np.ndarray:
    """Eq. 1, with the number of cells for n."""
    n, d = features.shape
    out = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            out[i, j] = (
                temperature / math.sqrt(cells * d) * sum((features[i, c] - features[j, c]) ** 2 for c in range(d))
            )
    return out


def affinity(distance: np.ndarray) -> np.ndarray:
    """Soft-argmin, then min-max, row by row, then the clamp."""
    out = np.zeros_like(distance)
    for i, row in enumerate(distance):
        weights = np.array([math.exp(-value) for value in row])
        soft = weights / weights.sum()
        low, high = soft.min(), soft.max()
        for j in range(len(row)):
            stretched = (soft[j] - low) / (high - low) if high > low else 1.0
            out[i, j] = min(max(stretched, FLOOR), 1 - FLOOR)
    return out


def compactness(mask: np.ndarray, nodes: list[Node], row: float, column: float) -> float:
    """Eq. 3, with its double sum over pairs."""
    area = [m * node.area for m, node in zip(mask, nodes, strict=True)]
    density = [m * node.density for m, node in zip(mask, nodes, strict=True)]
    inertia = [m * node.inertia for m, node in zip(mask, nodes, strict=True)]
    mass = [a * d for a, d in zip(area, density, strict=True)]
    disc = sum(m * a for m, a in zip(mass, area, strict=True))
    for j in range(len(nodes)):
        for v in range(j + 1, len(nodes)):
            disc += 2 * min(density[j], density[v]) * area[j] * area[v]
    moment = 0.0
    for j, node in enumerate(nodes):
        moment += inertia[j] + mass[j] * ((node.row - row) ** 2 + (node.column - column) ** 2)
    return disc / (2 * math.pi * moment)


def cluster(
    scores: np.ndarray,
    affinities: np.ndarray,
    anchors: int,
    scope_threshold: float = 0.0,
    candidates: Sequence[int] | None = None,
) -> tuple[list[int], list[np.ndarray]]:
    """Alg. 1 with true stick breaking: the anchors and the masks, the remainder last."""
    n = affinities.shape[1]
    candidates = range(n) if candidates is None else candidates
    scope, chosen, masks = np.ones(n), [], []
    while len(chosen) < anchors and (not chosen or scope.sum() >= scope_threshold * n):
        best = max(candidates, key=lambda i: (scores[i] * scope[i], -i))
        chosen.append(best)
        masks.append(scope * affinities[best])
        scope = scope * (1 - affinities[best])
    return chosen, [*masks, scope]


def pool_features(mask: np.ndarray, features: np.ndarray) -> np.ndarray:
    return np.array(
        [sum(mask[j] * features[j, c] for j in range(len(mask))) / mask.sum() for c in range(features.shape[1])]
    )


def pool_geometry(mask: np.ndarray, nodes: list[Node], rule: str = "parallel-axis") -> Node:
    """Area, mass, centre of mass, and one of the three readings of inertia."""
    area = sum(m * node.area for m, node in zip(mask, nodes, strict=True))
    masses = [m * m * node.density * node.area for m, node in zip(mask, nodes, strict=True)]
    mass = sum(masses)
    row = sum(w * node.row for w, node in zip(masses, nodes, strict=True)) / mass
    column = sum(w * node.column for w, node in zip(masses, nodes, strict=True)) / mass
    inertia = 0.0
    for m, w, node in zip(mask, masses, nodes, strict=True):
        around = w * ((node.row - row) ** 2 + (node.column - column) ** 2)
        if rule == "printed":
            inertia += m * node.inertia
        elif rule == "released":
            inertia += m * node.density * node.inertia + around
        else:
            inertia += m * node.inertia + around
    return Node(area, mass / area, inertia, row, column)


def merge_two_levels(
    lower: np.ndarray, upper: np.ndarray, lower_window: tuple[int, int], upper_window: tuple[int, int]
) -> np.ndarray:
    """Pixel masks of the one upper window: `lower[cell, cluster, pixel]`, `upper[slot, (cell, cluster)]`."""
    (h, w), (rows, columns) = lower_window, upper_window
    slots, clusters = upper.shape[0], lower.shape[1]
    image = np.zeros((slots, rows * h, columns * w))
    for slot in range(slots):
        for y in range(rows * h):
            for x in range(columns * w):
                cell = (y // h) * columns + x // w
                pixel = (y % h) * w + x % w
                for k in range(clusters):
                    image[slot, y, x] += upper[slot, cell * clusters + k] * lower[cell, k, pixel]
    return image


def skip_means(
    source: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    lower_window: tuple[int, int],
    upper_window: tuple[int, int],
) -> np.ndarray:
    """What skips a level: means of `source[row, column, node]` under the masks of the two levels above it, merged.

    `lower[window, cluster, node]` are the masks over the source, `upper` those over the lower level's clusters.
    """
    rows, columns, per_cell, dim = source.shape
    (h, w), (height, width) = lower_window, upper_window
    windows, slots, clusters = upper.shape[0], upper.shape[1], lower.shape[1]
    total, weight = np.zeros((windows, slots, dim)), np.zeros((windows, slots))
    for y in range(rows):
        for x in range(columns):
            cell_y, cell_x = y // h, x // w
            inside = (y % h) * w + x % w
            above = (cell_y // height) * (columns // w // width) + cell_x // width
            inside_above = (cell_y % height) * width + cell_x % width
            for node in range(per_cell):
                for slot in range(slots):
                    part = sum(
                        upper[above, slot, inside_above * clusters + k]
                        * lower[cell_y * (columns // w) + cell_x, k, inside * per_cell + node]
                        for k in range(clusters)
                    )
                    total[above, slot] += part * source[y, x, node]
                    weight[above, slot] += part
    return total / weight[..., None]
