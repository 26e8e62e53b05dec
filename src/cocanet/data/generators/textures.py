"""Procedural materials: a seamless colour texture with the relief that goes with it."""

from __future__ import annotations

import colorsys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, UInt8

from cocanet.data.generators.noise import (
    Field,
    cell_values,
    cells,
    clouds,
    coordinates,
    joints,
    smoothstep,
    spread,
)


class Pattern(NamedTuple):
    """Where a material's three colours go (0 the first, 0.5 the second, 1 the third) and its height."""

    mix: Float[np.ndarray, "s s"]
    height: Float[np.ndarray, "s s"]


class Texture(NamedTuple):
    """Colours in [0, 1], height in [-1, 1], and how far (in half-extents) a height of 1 stands out."""

    colour: Float[np.ndarray, "s s 3"]
    height: Float[np.ndarray, "s s"]
    relief: float


def _plaster(rng: np.random.Generator, side: int) -> Pattern:
    field = clouds(rng, side, roughness=rng.uniform(1.0, 2.0))
    return Pattern(field, clouds(rng, side, roughness=1.5, lowest=3))


def _marble(rng: np.random.Generator, side: int) -> Pattern:
    u, v = coordinates(side)
    bend = clouds(rng, side, roughness=1.9)
    veins = np.abs(np.sin(np.pi * (rng.integers(1, 4) * u + rng.integers(1, 3) * v + 4 * bend)))
    return Pattern(veins ** rng.uniform(0.3, 0.7), bend)


def _wood(rng: np.random.Generator, side: int) -> Pattern:
    u, _ = coordinates(side)
    grain = clouds(rng, side, roughness=1.2, stretch=(1.0, 9.0))
    rings = (np.sin(2 * np.pi * (rng.integers(3, 8) * u + 1.6 * clouds(rng, side, roughness=2.4))) + 1) / 2
    return Pattern(0.65 * rings + 0.35 * grain, grain)


def _planks(rng: np.random.Generator, side: int) -> Pattern:
    u, v = coordinates(side)
    count = int(rng.integers(4, 8))
    column = np.floor(u * count).astype(np.int64)
    gap = joints(u * count, 0.07) * joints(v + 0.37 * column, 0.012)
    grain = clouds(rng, side, roughness=1.1, stretch=(1.0, 8.0))
    board = cell_values(rng, column, np.zeros_like(column), count, 1)
    return Pattern(gap * (0.45 * grain + 0.55 * board), gap + 0.2 * grain)


def _bricks(rng: np.random.Generator, side: int) -> Pattern:
    u, v = coordinates(side)
    rows, columns = 2 * int(rng.integers(3, 6)), int(rng.integers(3, 6))
    row = np.floor(v * rows).astype(np.int64)
    along = u * columns + 0.5 * (row % 2)
    brick = joints(along, 0.07) * joints(v * rows, 0.14)
    shade = cell_values(rng, np.floor(along).astype(np.int64), row, columns, rows)
    rough = clouds(rng, side, roughness=1.0, lowest=4)
    return Pattern(brick * (0.5 + 0.35 * shade + 0.15 * rough), brick + 0.25 * rough)


def _tiles(rng: np.random.Generator, side: int) -> Pattern:
    u, v = coordinates(side)
    count = int(rng.integers(3, 7))
    tile = joints(u * count, 0.08) * joints(v * count, 0.08)
    column, row = (np.floor(axis * count).astype(np.int64) for axis in (u, v))
    shade = cell_values(rng, column, row, count, count)
    return Pattern(tile * (0.35 + 0.5 * shade + 0.15 * clouds(rng, side)), tile)


def _weave(rng: np.random.Generator, side: int) -> Pattern:
    u, v = coordinates(side)
    count = 2 * int(rng.integers(3, 8))
    across, along = np.sin(np.pi * u * count), np.sin(np.pi * v * count)
    over = (np.floor(u * count) + np.floor(v * count)) % 2
    warp = np.abs(along) * (0.55 + 0.45 * np.abs(across))
    weft = np.abs(across) * (0.55 + 0.45 * np.abs(along))
    height = np.where(over > 0, warp, weft)
    return Pattern(0.35 * over + 0.65 * height, height)


def _checker(rng: np.random.Generator, side: int) -> Pattern:
    u, v = coordinates(side)
    count = 2 * int(rng.integers(2, 5))
    dark = (np.floor(u * count) + np.floor(v * count)) % 2
    return Pattern(0.8 * dark + 0.2 * clouds(rng, side, roughness=1.2), joints(u * count, 0.1) * joints(v * count, 0.1))


def _corrugated(rng: np.random.Generator, side: int) -> Pattern:
    u, v = coordinates(side)
    waves = (np.sin(2 * np.pi * int(rng.integers(5, 11)) * (u if rng.random() < 0.5 else v)) + 1) / 2
    return Pattern(0.6 * waves + 0.4 * clouds(rng, side), waves)


def _pebbles(rng: np.random.Generator, side: int) -> Pattern:
    count = int(rng.integers(40, 160))
    found = cells(rng, side, count)
    dome = np.sqrt(np.clip(1 - (found.nearest / np.maximum(found.second, 1e-9)) ** 2, 0, 1))
    shade = rng.uniform(size=found.seed.max() + 1)[found.seed]
    return Pattern(smoothstep(0.1, 0.4, dome) * (0.25 + 0.75 * shade), dome)


def _cracked(rng: np.random.Generator, side: int) -> Pattern:
    found = cells(rng, side, int(rng.integers(25, 80)))
    gap = found.second - found.nearest + 0.12 * clouds(rng, side, roughness=1.0) - 0.06
    plate = smoothstep(0.03, 0.1, gap)
    return Pattern(plate * (0.45 + 0.55 * clouds(rng, side, roughness=1.3)), plate)


def _scales(rng: np.random.Generator, side: int) -> Pattern:
    u, v = coordinates(side)
    count = 2 * int(rng.integers(3, 7))
    best = np.zeros_like(u)
    tone = np.zeros_like(u)
    for layer in (1, 0):
        row = np.floor(v * count) - layer
        x = (u * count / 2 + 0.5 * (row % 2)) % 1.0 - 0.5
        y = v * count - row
        inside = (2 * x) ** 2 + ((y - 1.0) / 1.0) ** 2 < 1
        lift = 0.4 + 0.6 * y / 2
        best = np.where(inside, lift, best)
        tone = np.where(inside, 1 - 0.8 * np.hypot(2 * x, y - 1.0), tone)
    return Pattern(np.clip(tone + 0.15 * clouds(rng, side), 0, 1), best)


def _hexagons(rng: np.random.Generator, side: int) -> Pattern:
    u, v = coordinates(side)
    count = int(rng.integers(3, 6))
    # Two interleaved lattices of centres; rows are √3 times wider than columns, rounded so that it wraps.
    x, y = u * count * 2, v * count * 1.0
    first = np.stack([(x % 2) - 1, ((y % 1) - 0.5) * 3.4641])
    second = np.stack([((x + 1) % 2) - 1, (((y + 0.5) % 1) - 0.5) * 3.4641])
    reach = [np.maximum(np.abs(p[0]), np.abs(p[0]) / 2 + np.abs(p[1]) * 0.866) for p in (first, second)]
    plate = smoothstep(0.04, 0.12, 1 - np.minimum(*reach))
    return Pattern(plate * (0.5 + 0.5 * clouds(rng, side)), plate)


def _terrazzo(rng: np.random.Generator, side: int) -> Pattern:
    found = cells(rng, side, int(rng.integers(80, 220)))
    chip = rng.uniform(size=found.seed.max() + 1)[found.seed]
    stone = smoothstep(0.1, 0.1, found.second - found.nearest) * (chip > 0.35)
    return Pattern(stone * chip, 0.3 * stone)


def _rust(rng: np.random.Generator, side: int) -> Pattern:
    stain = smoothstep(rng.uniform(0.35, 0.55), 0.08, clouds(rng, side, roughness=1.5))
    return Pattern(0.8 * stain + 0.2 * clouds(rng, side, roughness=0.8), stain + 0.3 * clouds(rng, side, roughness=1.0))


def _leather(rng: np.random.Generator, side: int) -> Pattern:
    found = cells(rng, side, int(rng.integers(200, 500)))
    bead = smoothstep(0.0, 0.5, found.second - found.nearest)
    return Pattern(0.6 * bead + 0.4 * clouds(rng, side), bead)


def _herringbone(rng: np.random.Generator, side: int) -> Pattern:
    u, v = coordinates(side)
    count = 2 * int(rng.integers(2, 4))
    zigzag = np.abs((u * count) % 2 - 1)
    bars = v * count * 2 + zigzag * 2
    bar = joints(bars, 0.1) * joints(u * count, 0.05)
    shade = cell_values(rng, np.floor(u * count).astype(np.int64), np.floor(bars).astype(np.int64), count, 2 * count)
    return Pattern(bar * (0.4 + 0.6 * shade), bar)


def _studs(rng: np.random.Generator, side: int) -> Pattern:
    u, v = coordinates(side)
    count = int(rng.integers(4, 9))
    away = np.hypot((u * count) % 1 - 0.5, (v * count) % 1 - 0.5)
    stud = np.sqrt(np.clip(1 - (away / 0.36) ** 2, 0, 1))
    return Pattern(0.75 * (stud > 0) + 0.25 * clouds(rng, side), stud)


def _fur(rng: np.random.Generator, side: int) -> Pattern:
    hair = clouds(rng, side, roughness=0.7, stretch=(1.0, 5.0), lowest=5)
    return Pattern(0.7 * hair + 0.3 * clouds(rng, side), hair)


def _camouflage(rng: np.random.Generator, side: int) -> Pattern:
    field = clouds(rng, side, roughness=2.0)
    return Pattern(np.floor(field * 4.99) / 4, np.floor(clouds(rng, side, roughness=2.0) * 3.99) / 3)


def _veins(rng: np.random.Generator, side: int) -> Pattern:
    ridge = 1 - np.abs(2 * clouds(rng, side, roughness=1.5) - 1)
    return Pattern(ridge**4, ridge**2)


# Kind of pattern and how strong its relief is, as part of the object's half-extent.
KINDS: dict[str, tuple[Callable[[np.random.Generator, int], Pattern], float]] = {
    "plaster": (_plaster, 0.03),
    "marble": (_marble, 0.0),
    "wood": (_wood, 0.0),
    "planks": (_planks, 0.03),
    "bricks": (_bricks, 0.045),
    "tiles": (_tiles, 0.035),
    "weave": (_weave, 0.04),
    "checker": (_checker, 0.0),
    "corrugated": (_corrugated, 0.05),
    "pebbles": (_pebbles, 0.06),
    "cracked": (_cracked, 0.04),
    "scales": (_scales, 0.05),
    "hexagons": (_hexagons, 0.035),
    "terrazzo": (_terrazzo, 0.0),
    "rust": (_rust, 0.03),
    "leather": (_leather, 0.02),
    "herringbone": (_herringbone, 0.035),
    "studs": (_studs, 0.06),
    "fur": (_fur, 0.02),
    "camouflage": (_camouflage, 0.0),
    "veins": (_veins, 0.05),
}


def _palette(rng: np.random.Generator) -> Float[np.ndarray, "3 3"]:
    """A dark, a middle and a light colour of related hues, more often earthen than not."""
    hue = rng.uniform(0.02, 0.14) if rng.random() < 0.45 else rng.uniform()
    saturation = rng.beta(1.5, 2.6)
    darkest, middle, lightest = rng.uniform(0.08, 0.35), rng.uniform(0.35, 0.65), rng.uniform(0.65, 0.98)
    colours = [
        colorsys.hsv_to_rgb(
            (hue + rng.normal(0, 0.05)) % 1.0, float(np.clip(saturation + rng.normal(0, 0.1), 0, 0.9)), value
        )
        for value in (darkest, middle, lightest)
    ]
    return np.array(colours if rng.random() < 0.75 else colours[::-1])


def make_texture(kind: str, rng: np.random.Generator, side: int) -> Texture:
    """One material of a kind, its parameters and colours drawn from `rng`; hollows are darkened."""
    if kind not in KINDS:
        raise ValueError(f"no texture kind {kind!r}, expected one of {', '.join(KINDS)}")
    pattern, relief = KINDS[kind]
    mix, height = pattern(rng, side)
    height = 2 * spread(height) - 1
    stops = _palette(rng)
    mix = spread(mix)
    colour = np.stack([np.interp(mix, [0, 0.5, 1], stops[:, c]) for c in range(3)], axis=-1)
    if relief > 0:
        colour = colour * (0.85 + 0.15 * height[..., None])
    return Texture(colour, height, relief)


def lit_relief(height: Field, strength: float, towards: Float[np.ndarray, " 2"]) -> Float[np.ndarray, "s s"]:
    """How much brighter each texel is than a flat one, for light from the horizontal direction `towards`."""
    down, across = ((np.roll(height, -1, axis) - np.roll(height, 1, axis)) / 2 for axis in (0, 1))
    slope = -(across * towards[0] + down * towards[1]) * strength * height.shape[0] / 32
    shade: Field = np.clip(1 + slope, 0.45, 1.6)
    return shade


def to_bytes(colour: Float[np.ndarray, "*shape 3"]) -> UInt8[np.ndarray, "*shape 3"]:
    """Colours in [0, 1] as bytes."""
    texels: UInt8[np.ndarray, "*shape 3"] = (255 * np.clip(colour, 0, 1) + 0.5).astype(np.uint8)
    return texels


def height_at(texture: Texture, texcoords: Float[np.ndarray, "v 2"]) -> Float[np.ndarray, " v"]:
    """The height at texture coordinates, which wrap around."""
    side = texture.height.shape[0]
    column, row = np.floor(texcoords.astype(np.float64) * side).astype(np.int64).T % side
    height: Float[np.ndarray, " v"] = texture.height[row, column]
    return height
