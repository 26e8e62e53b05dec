"""Triangle meshes of the rendered scenes, made from formulas.

Every solid fits the unit cube [-1, 1]³ about its own centre, so a scene scales it by half its extent. Meshes are
finer than their silhouettes need, because the renderer shades vertices and interpolates between them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Int, Int32


class Mesh(NamedTuple):
    """Vertices with unit normals and texture coordinates, and the counter-clockwise triangles over them."""

    vertices: Float32[np.ndarray, "v 3"]
    normals: Float32[np.ndarray, "v 3"]
    texcoords: Float32[np.ndarray, "v 2"]
    faces: Int32[np.ndarray, "f 3"]


def grid_faces(rows: int, columns: int) -> Int32[np.ndarray, "f 3"]:
    """Two triangles per cell of a lattice, counter-clockwise when rows run along y and columns along x."""
    corner = (np.arange(rows - 1)[:, None] * columns + np.arange(columns - 1)).reshape(-1)
    lower = np.stack([corner, corner + 1, corner + columns + 1], axis=1)
    upper = np.stack([corner, corner + columns + 1, corner + columns], axis=1)
    return np.concatenate([lower, upper]).astype(np.int32)


def welded(vertices: Float32[np.ndarray, "v 3"]) -> Int[np.ndarray, " v"]:
    """A number per vertex, the same for vertices at the same place."""
    _, shared = np.unique(np.round(vertices, 4) + 0.0, axis=0, return_inverse=True)
    return shared.reshape(-1)


def smooth_normals(vertices: Float32[np.ndarray, "v 3"], faces: Int32[np.ndarray, "f 3"]) -> Float32[np.ndarray, "v 3"]:
    """Area-weighted vertex normals; vertices at the same place share one, so seams do not show."""
    shared = welded(vertices)
    corners = vertices[faces]
    face_normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    total = np.zeros((shared.max() + 1, 3))
    for corner in range(3):
        np.add.at(total, shared[faces[:, corner]], face_normals)
    total /= np.maximum(np.linalg.norm(total, axis=1, keepdims=True), 1e-12)
    normals: Float32[np.ndarray, "v 3"] = total[shared].astype(np.float32)
    return normals


def plane(cells: int = 48) -> Mesh:
    """The square [-1, 1]² at z = 0, facing up; texture coordinates run from 0 to 1."""
    line = np.linspace(-1, 1, cells + 1)
    x, y = np.meshgrid(line, line)
    vertices = np.stack([x, y, np.zeros_like(x)], axis=-1).reshape(-1, 3).astype(np.float32)
    normals = np.tile(np.array([0, 0, 1], np.float32), (len(vertices), 1))
    return Mesh(vertices, normals, (vertices[:, :2] + 1) / 2, grid_faces(cells + 1, cells + 1))


def cube_sphere(cells: int) -> Mesh:
    """The surface of the cube [-1, 1]³ as six lattices, dense towards the edges, a texture square on each."""
    half = np.linspace(0, 1, cells // 2 + 1) ** 0.6
    line = np.concatenate([-half[:0:-1], half])
    u, v = (axis.reshape(-1) for axis in np.meshgrid(line, line))
    one = np.ones_like(u)
    sides = [(u, -one, v), (one, u, v), (-u, one, v), (-one, -u, v), (u, v, one), (-u, v, -one)]
    vertices = np.concatenate([np.stack(side, axis=1) for side in sides]).astype(np.float32)
    square = np.stack([u, v], axis=1).astype(np.float32) / 2 + 0.5
    faces = grid_faces(len(line), len(line))
    all_faces = np.concatenate([faces + k * len(u) for k in range(6)]).astype(np.int32)
    return Mesh(vertices, smooth_normals(vertices, all_faces), np.tile(square, (6, 1)), all_faces)


def box(cells: int = 6) -> Mesh:
    """A cube with sharp edges."""
    block = cube_sphere(cells)
    per_side = len(block.vertices) // 6
    outward = np.array([[0, -1, 0], [1, 0, 0], [0, 1, 0], [-1, 0, 0], [0, 0, 1], [0, 0, -1]], np.float32)
    return block._replace(normals=np.repeat(outward, per_side, axis=0))


def cube(cells: int = 12, bevel: float = 0.12) -> Mesh:
    """A cube with rounded edges: what lies within `bevel` of an edge moves onto a rounding of that radius."""
    block = cube_sphere(cells)
    core = np.clip(block.vertices, bevel - 1, 1 - bevel)
    outward = block.vertices - core
    normals = outward / np.linalg.norm(outward, axis=1, keepdims=True)
    return block._replace(vertices=(core + bevel * normals).astype(np.float32), normals=normals.astype(np.float32))


def lathe(
    radius: Float[np.ndarray, " r"],
    height: Float[np.ndarray, " r"],
    slope: Float[np.ndarray, "r 2"],
    slices: int,
) -> Mesh:
    """Spin a profile about z, top first. `slope` holds its (radial, vertical) normals."""
    phi = np.linspace(0, 2 * np.pi, slices + 1)
    spin = np.stack([np.cos(phi), np.sin(phi)], axis=-1)
    rows = len(radius)
    ring = radius[:, None, None] * spin
    vertices = np.concatenate([ring, np.broadcast_to(height[:, None, None], (rows, slices + 1, 1))], axis=-1)
    normals = np.concatenate(
        [slope[:, None, :1] * spin, np.broadcast_to(slope[:, None, 1:], (rows, slices + 1, 1))], axis=-1
    )
    # Arc length from the top replaces the radius, which leaves no pinched pole where the camera looks.
    step = np.hypot(np.diff(radius), np.diff(height))
    arc = np.concatenate([[0.0], np.cumsum(step)])
    texcoords = 0.5 + arc[:, None, None] * spin / 4
    flat = vertices.reshape(-1, 3).astype(np.float32)
    # Rows run downwards from the top, so the lattice is turned inside out to face outward.
    faces = grid_faces(rows, slices + 1)[:, ::-1].copy()
    corners = flat[faces]
    area = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1)
    return Mesh(
        flat,
        normals.reshape(-1, 3).astype(np.float32),
        texcoords.reshape(-1, 2).astype(np.float32),
        faces[area > 1e-9],
    )


def sphere(slices: int = 40) -> Mesh:
    """The unit sphere."""
    theta = np.linspace(0, np.pi, slices // 2 + 1)
    slope = np.stack([np.sin(theta), np.cos(theta)], axis=1)
    return lathe(np.sin(theta), np.cos(theta), slope, slices)


def cylinder(slices: int = 40, bevel: float = 0.06, stacks: int = 8) -> Mesh:
    """Radius 1, from z = -1 to 1, rims rounded by `bevel`; the underside, which is never visible, is one fan."""
    turn = np.linspace(0, np.pi / 2, 4)
    rim = np.stack([1 - bevel + bevel * np.sin(turn), 1 - bevel + bevel * np.cos(turn)], axis=1)
    rim_slope = np.stack([np.sin(turn), np.cos(turn)], axis=1)
    inner = np.linspace(0, 1 - bevel, stacks // 2 + 2)[:-1]
    cap = np.stack([inner, np.ones_like(inner)], axis=1)
    side = np.linspace(1 - bevel, bevel - 1, stacks + 2)[1:-1]
    wall = np.stack([np.ones_like(side), side], axis=1)
    up, out = np.tile([0.0, 1.0], (len(cap), 1)), np.tile([1.0, 0.0], (len(wall), 1))
    flip = np.array([1.0, -1.0])
    profile = np.concatenate([cap, rim, wall, (rim * flip)[::-1], [[0.0, -1.0]]])
    slope = np.concatenate([up, rim_slope, out, (rim_slope * flip)[::-1], [[0.0, -1.0]]])
    return lathe(profile[:, 0], profile[:, 1], slope, slices)


def cone(slices: int = 32) -> Mesh:
    """Base radius 1 at z = -1, tip at z = 1."""
    t = np.linspace(0, 1, 12)
    base = np.linspace(1, 0, 4)
    radius = np.concatenate([t, base])
    height = np.concatenate([1 - 2 * t, -np.ones(4)])
    lean = np.array([2.0, 1.0]) / np.sqrt(5)
    slope = np.concatenate([np.tile(lean, (12, 1)), np.tile([0.0, -1.0], (4, 1))])
    return lathe(radius, height, slope, slices)


def capsule(slices: int = 32) -> Mesh:
    """Half-spheres of radius 0.5 on a cylinder, from z = -1 to 1."""
    theta = np.concatenate([np.linspace(0, np.pi / 2, 9), np.linspace(np.pi / 2, np.pi, 9)])
    shift = np.repeat([0.5, -0.5], 9)
    slope = np.stack([np.sin(theta), np.cos(theta)], axis=1)
    return lathe(0.5 * np.sin(theta), 0.5 * np.cos(theta) + shift, slope, slices)


def icosahedron() -> Mesh:
    """The regular icosahedron inscribed in the unit sphere, with flat faces."""
    golden = (1 + 5**0.5) / 2
    pairs = [(a, b * golden) for a in (-1, 1) for b in (-1, 1)]
    points = np.array([p for a, b in pairs for p in ((0, a, b), (a, b, 0), (b, 0, a))]) / np.hypot(1, golden)
    edge = 2 / np.hypot(1, golden)
    near = np.abs(np.linalg.norm(points[:, None] - points, axis=-1) - edge) < 1e-6
    corners = [
        (i, j, k) for i in range(12) for j in range(i) for k in range(j) if near[i, j] and near[j, k] and near[i, k]
    ]
    vertices = points[np.array(corners)].astype(np.float32)
    normals = np.cross(vertices[:, 1] - vertices[:, 0], vertices[:, 2] - vertices[:, 0])
    inward = (normals * vertices[:, 0]).sum(axis=1) < 0
    vertices[inward] = vertices[inward][:, ::-1]
    normals[inward] *= -1
    normals = np.repeat(normals / np.linalg.norm(normals, axis=1, keepdims=True), 3, axis=0).astype(np.float32)
    flat = vertices.reshape(-1, 3)
    return Mesh(flat, normals, flat[:, :2] / 2 + 0.5, np.arange(len(flat), dtype=np.int32).reshape(-1, 3))


# Lumps of the head: direction from its centre, how far they stand out, and how narrow they are.
_HEAD = (
    ((1.0, 0.0, -0.3), 0.32, 6.0),  # muzzle
    ((0.75, 0.0, 0.6), 0.14, 8.0),  # brow
    ((0.8, 0.36, 0.2), -0.26, 24.0),  # eyes
    ((0.8, -0.36, 0.2), -0.26, 24.0),
    ((-0.1, 1.0, 0.4), 0.4, 24.0),  # ears
    ((-0.1, -1.0, 0.4), 0.4, 24.0),
    ((-0.7, 0.0, 0.5), 0.15, 3.0),  # back of the head
)


def _head_surface(directions: Float32[np.ndarray, "v 3"]) -> Float[np.ndarray, "v 3"]:
    """The head's surface in the given directions from its middle, not yet brought to size."""
    radius = np.full(len(directions), 0.78)
    for direction, amount, narrow in _HEAD:
        centre = np.array(direction) / np.linalg.norm(direction)
        radius += amount * np.exp(narrow * (directions @ centre - 1))
    points: Float[np.ndarray, "v 3"] = directions * radius[:, None]
    return points


def head(slices: int = 36) -> Mesh:
    """A lumpy head with muzzle, brow, eyes and ears, facing +x: it replaces Blender's monkey."""
    ball = sphere(slices)
    # The extent is measured on a fine mesh, so that coarse and fine heads have one size.
    fine = _head_surface(sphere(96).vertices)
    low, high = fine.min(axis=0), fine.max(axis=0)
    vertices = (_head_surface(ball.vertices) - (low + high) / 2) / ((high - low) / 2).max()
    # The chin is cut off flat and stands on the ground like the others, at -1.
    chin = 0.14 - (high - low)[2] / (high - low).max()
    vertices[:, 2] = np.maximum(vertices[:, 2], chin) - chin - 1
    shaped = vertices.astype(np.float32)
    return ball._replace(vertices=shaped, normals=smooth_normals(shaped, ball.faces))


def displaced(
    mesh: Mesh, height: Callable[[Float32[np.ndarray, "v 2"]], Float[np.ndarray, " v"]], amount: float
) -> Mesh:
    """Push every vertex along its normal by `amount` · height(texture coordinate); height is in [-1, 1]."""
    shared = welded(mesh.vertices)
    # Along a seam the texture coordinates differ; the mean height keeps it closed.
    mean = np.bincount(shared, height(mesh.texcoords)) / np.bincount(shared)
    vertices = (mesh.vertices + amount * mean[shared, None] * mesh.normals).astype(np.float32)
    return mesh._replace(vertices=vertices, normals=smooth_normals(vertices, mesh.faces))
