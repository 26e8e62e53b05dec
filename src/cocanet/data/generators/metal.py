"""Textures that look like polished metal, for a renderer without reflections.

MuJoCo looks a cube texture up by the direction from a mesh's centre. Each direction has a known surface point and
normal, and so a reflected view ray. What that ray meets (ground, another object, lamp or dark sky) becomes the texel.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32, UInt8

TEXELS = 32
_BRIGHTNESS = 1.55
_HIGHLIGHT = 0.012


class Ball(NamedTuple):
    """An object as reflections show it: a ball of one colour."""

    centre: Float[np.ndarray, " 3"]
    radius: float
    colour: Float[np.ndarray, " 3"]


class Surface(NamedTuple):
    """Points and normals of a unit shape, one per texel of a cube texture."""

    points: Float32[np.ndarray, "t 3"]
    normals: Float32[np.ndarray, "t 3"]


def cube_directions(side: int) -> Float32[np.ndarray, "t 3"]:
    """The direction to every texel's centre: faces +x -x +y -y +z -z, in each its rows, then columns."""
    line = (2 * np.arange(side) + 1) / side - 1
    v, u = np.meshgrid(line, line, indexing="ij")
    one = np.ones_like(u)
    faces = [(one, -v, -u), (-one, -v, u), (u, one, v), (u, -one, -v), (u, -v, one), (-u, -v, -one)]
    directions = np.stack([np.stack(face, axis=-1) for face in faces]).reshape(-1, 3)
    unit: Float32[np.ndarray, "t 3"] = normalised(directions).astype(np.float32)
    return unit


def dots(left: Float[np.ndarray, "t d"], right: Float[np.ndarray, "t d"]) -> Float[np.ndarray, " t"]:
    """The inner product of each pair of rows; a sum over so short an axis would take several times longer."""
    products: Float[np.ndarray, " t"] = np.einsum("td,td->t", left, right)
    return products


def normalised(vectors: Float[np.ndarray, "t 3"]) -> Float[np.ndarray, "t 3"]:
    """The vectors at unit length."""
    unit: Float[np.ndarray, "t 3"] = vectors / np.sqrt(dots(vectors, vectors))[:, None]
    return unit


@cache
def surface(shape: str, side: int = TEXELS) -> Surface:
    """Where the ray from the centre of a unit cube, sphere or cylinder leaves it; rims are rounded."""
    directions = cube_directions(side)
    if shape == "sphere":
        return Surface(directions, directions)
    flat = np.linalg.norm(directions[:, :2], axis=1, keepdims=True)
    if shape == "cube":
        points = directions / np.abs(directions).max(axis=1, keepdims=True)
        outward = points - np.clip(points, -0.86, 0.86)
    elif shape == "cylinder":
        points = directions / np.maximum(flat, np.abs(directions[:, 2:]))
        radial = np.linalg.norm(points[:, :2], axis=1, keepdims=True)
        side_part = points[:, :2] * np.maximum(0, 1 - 0.93 / np.maximum(radial, 1e-6))
        outward = np.concatenate([side_part, points[:, 2:] - np.clip(points[:, 2:], -0.93, 0.93)], axis=1)
    else:
        raise ValueError(f"no surface for shape {shape!r}, expected cube, sphere or cylinder")
    return Surface(points.astype(np.float32), normalised(outward).astype(np.float32))


def _ground(hits: Float32[np.ndarray, "t 2"], balls: list[Ball]) -> Float32[np.ndarray, " t"]:
    """Brightness of the ground: lit in the middle, darker where an object stands."""
    light: Float32[np.ndarray, " t"] = 0.40 + 0.16 * np.exp(-dots(hits, hits) / np.float32(32))
    for ball in balls:
        offset = hits - ball.centre[:2].astype(np.float32)
        light *= 1 - 0.55 * np.exp(dots(offset, offset) * np.float32(-0.8 / ball.radius**2))
    return light


def _meet(
    origins: Float32[np.ndarray, "t 3"], rays: Float32[np.ndarray, "t 3"], balls: list[Ball]
) -> Float32[np.ndarray, "t 3"]:
    """The colour each ray meets first."""
    up = rays[:, 2]
    sky = 0.13 + 0.24 * np.exp(-7 * np.maximum(up, 0))
    reach = np.where(up < -1e-4, -origins[:, 2] / np.minimum(up, -1e-4), np.inf).astype(np.float32)
    below = np.isfinite(reach)
    hits = origins[below, :2] + reach[below, None] * rays[below, :2]
    sky[below] = _ground(hits, balls)
    seen = np.repeat(sky[:, None], 3, axis=1).astype(np.float32)
    for ball in balls:
        offset = origins - ball.centre.astype(np.float32)
        along = dots(offset, rays)
        space = along**2 - dots(offset, offset) + np.float32(ball.radius**2)
        distance = -along - np.sqrt(np.maximum(space, 0))
        met = (space > 0) & (distance > 1e-2) & (distance < reach)
        top = (offset[met, 2] + distance[met] * rays[met, 2]) / np.float32(ball.radius)
        seen[met] = ball.colour.astype(np.float32) * (0.42 + 0.3 * top[:, None])
        reach[met] = distance[met]
    return seen


def reflection_texture(
    shape: str,
    ball: Ball,
    rotation: Float[np.ndarray, "3 3"],
    half: float,
    *,
    others: list[Ball],
    lamps: Float[np.ndarray, "l 3"],
    eye: Float[np.ndarray, " 3"],
) -> UInt8[np.ndarray, "6 side side 3"]:
    """The cube texture of a metal object of half-extent `half` that stands at `ball`, in its colour."""
    form = surface(shape)
    turned = rotation.astype(np.float32)
    normals = form.normals @ turned.T
    points = form.points @ turned.T * np.float32(half) + ball.centre.astype(np.float32)
    views = normalised(points - eye.astype(np.float32))
    facing = dots(views, normals)
    front = facing < 0.15
    points, normals, views = points[front], normals[front], views[front]
    rays = views - 2 * facing[front, None] * normals
    # A slight scatter darkens the mirror where it is seen head-on and brightens it towards its rim.
    rim = (1 - np.clip(-facing[front], 0, 1))[:, None] ** 4
    tint = ball.colour.astype(np.float32) * (1 - 0.5 * rim) + 0.5 * rim
    colour = _BRIGHTNESS * tint * _meet(points, rays, others) + 0.07 * tint
    for lamp in lamps:
        towards = normalised(lamp.astype(np.float32) - points)
        glow = np.exp((dots(towards, rays) - 1) / np.float32(_HIGHLIGHT))[:, None]
        colour += glow * (0.55 + 0.6 * tint)
    texels = np.zeros((len(front), 3), np.uint8)
    texels[front] = (255 * np.clip(colour, 0, 1)).astype(np.uint8)
    return texels.reshape(6, TEXELS, TEXELS, 3)
