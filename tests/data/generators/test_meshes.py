from __future__ import annotations

import numpy as np
import pytest

from cocanet.data.generators import meshes

SOLIDS = {
    "box": meshes.box(4),
    "cube": meshes.cube(8),
    "sphere": meshes.sphere(20),
    "cylinder": meshes.cylinder(20),
    "cone": meshes.cone(16),
    "capsule": meshes.capsule(16),
    "icosahedron": meshes.icosahedron(),
    "head": meshes.head(24),
}


def test_a_solid_is_closed_and_faces_outward() -> None:
    for mesh in SOLIDS.values():
        place = meshes.welded(mesh.vertices)
        edges: dict[tuple[int, int], int] = {}
        for face in place[mesh.faces]:
            if len(set(face)) == 3:
                for a, b in zip(face, np.roll(face, -1), strict=True):
                    edges[a, b] = edges.get((a, b), 0) + 1
        assert all(edges.get((b, a)) == times for (a, b), times in edges.items())
        corners = mesh.vertices[mesh.faces]
        volume = np.einsum("fi,fi->f", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])).sum() / 6
        assert 0.5 < volume <= 8.0001


def test_a_solid_fits_the_unit_cube_and_stands_on_its_lower_side() -> None:
    for name, mesh in SOLIDS.items():
        vertices = mesh.vertices
        assert np.abs(vertices[:, :2]).max() <= 1 + 1e-5
        assert vertices[:, 2].max() <= 1 + 1e-5
        if name != "icosahedron":
            assert vertices[:, 2].min() == pytest.approx(-1, abs=0.02)


def test_normals_have_unit_length_and_agree_with_the_faces() -> None:
    for mesh in SOLIDS.values():
        np.testing.assert_allclose(np.linalg.norm(mesh.normals, axis=1), 1, atol=1e-4)
        corners = mesh.vertices[mesh.faces]
        flat = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        agreement = np.einsum("fi,fci->fc", flat, mesh.normals[mesh.faces])
        assert (agreement > -1e-4).mean() > 0.99


def test_volumes_approach_the_formulas() -> None:
    def volume(mesh: meshes.Mesh) -> float:
        corners = mesh.vertices[mesh.faces].astype(np.float64)
        return float(np.einsum("fi,fi->f", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])).sum() / 6)

    assert volume(meshes.sphere(60)) == pytest.approx(4 / 3 * np.pi, rel=0.01)
    assert volume(meshes.cylinder(60, bevel=0.001)) == pytest.approx(2 * np.pi, rel=0.01)
    assert volume(meshes.cone(60)) == pytest.approx(2 * np.pi / 3, rel=0.01)
    assert volume(meshes.box(4)) == pytest.approx(8)


def test_displacement_moves_along_the_normal_and_keeps_seams_closed() -> None:
    mesh = meshes.cube(8)

    def wavy(texcoords: np.ndarray) -> np.ndarray:
        return np.sin(17 * texcoords[:, 0] + 5 * texcoords[:, 1]).astype(np.float64)

    moved = meshes.displaced(mesh, wavy, 0.1)
    offset = moved.vertices - mesh.vertices
    assert np.abs(np.linalg.norm(np.cross(offset, mesh.normals), axis=1)).max() < 1e-5
    for place in np.unique(meshes.welded(mesh.vertices)):
        together = moved.vertices[meshes.welded(mesh.vertices) == place]
        assert np.ptp(together, axis=0).max() < 1e-5
