"""Seamless random fields on the unit square: the raw material of the textures. Every field wraps around."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.spatial import cKDTree

Field = Float[np.ndarray, "s s"]


class Cells(NamedTuple):
    """For every texel: distance to the nearest and second nearest seed point, and which seed is nearest."""

    nearest: Float[np.ndarray, "s s"]
    second: Float[np.ndarray, "s s"]
    seed: Int[np.ndarray, "s s"]


def coordinates(side: int) -> tuple[Float[np.ndarray, "s s"], Float[np.ndarray, "s s"]]:
    """Column and row position of every texel's centre, in [0, 1)."""
    line = (np.arange(side) + 0.5) / side
    v, u = np.meshgrid(line, line, indexing="ij")
    return u, v


def spread(values: Float[np.ndarray, "s s"]) -> Float[np.ndarray, "s s"]:
    """Shift and scale to [0, 1]; a constant becomes 0."""
    low, high = values.min(), values.max()
    field: Field = (values - low) / max(high - low, 1e-12)
    return field


def clouds(
    rng: np.random.Generator,
    side: int,
    *,
    roughness: float = 1.6,
    stretch: tuple[float, float] = (1.0, 1.0),
    lowest: int = 1,
) -> Float[np.ndarray, "s s"]:
    """Noise in [0, 1] whose amplitude falls as frequency^-roughness from `lowest` cycles on.

    `stretch` makes the grain longer along columns or rows.
    """
    across = np.fft.rfftfreq(side, 1 / side) * stretch[0]
    along = np.fft.fftfreq(side, 1 / side) * stretch[1]
    frequency = np.hypot(across, along[:, None])
    weight = np.where(frequency >= lowest, np.maximum(frequency, 1e-9) ** -roughness, 0.0)
    phases = rng.standard_normal((2, *weight.shape))
    field = np.fft.irfft2(weight * (phases[0] + 1j * phases[1]), s=(side, side))
    return spread(np.clip(field / field.std(), -2.5, 2.5))


def cells(rng: np.random.Generator, side: int, count: int) -> Cells:
    """Voronoi cells of `count` jittered points; distances are in units of the mean spacing."""
    per_side = max(1, round(count**0.5))
    lattice = np.stack(coordinates(per_side), axis=-1).reshape(-1, 2)
    points = (lattice + rng.uniform(-0.42, 0.42, lattice.shape) / per_side) % 1.0
    texels = np.stack(coordinates(side), axis=-1).reshape(-1, 2)
    found = cKDTree(points, boxsize=np.ones(2)).query(texels, k=2)
    nearest, second = np.asarray(found[0]).T.reshape(2, side, side) * per_side
    return Cells(nearest, second, np.asarray(found[1])[:, 0].reshape(side, side))


def smoothstep(edge: float, width: float, values: Float[np.ndarray, "s s"]) -> Float[np.ndarray, "s s"]:
    """0 below `edge`, 1 above `edge + width`, smooth between."""
    t = np.clip((values - edge) / width, 0, 1)
    field: Field = t * t * (3 - 2 * t)
    return field


def joints(position: Float[np.ndarray, "s s"], width: float) -> Float[np.ndarray, "s s"]:
    """1 inside the unit cells of `position`, falling to 0 within `width` of their borders."""
    fraction = position % 1.0
    return smoothstep(0.0, width, np.minimum(fraction, 1 - fraction))


def cell_values(
    rng: np.random.Generator,
    column: Int[np.ndarray, "s s"],
    row: Int[np.ndarray, "s s"],
    columns: int,
    rows: int,
) -> Float[np.ndarray, "s s"]:
    """One uniform random number per cell of a lattice that wraps."""
    table = rng.uniform(size=(rows, columns))
    values: Field = table[row % rows, column % columns]
    return values
