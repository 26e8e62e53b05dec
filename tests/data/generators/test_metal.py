from __future__ import annotations

import numpy as np
import pytest

from cocanet.data.generators.metal import TEXELS, Ball, cube_directions, dots, reflection_texture, surface

BALL = Ball(np.array([0.0, 0.0, 0.7]), 0.7, np.array([0.5, 0.5, 0.5]))
EYE = np.array([7.0, 0.0, 3.0])
NO_LAMPS = np.zeros((0, 3))


def _shine(others: list[Ball], lamps: np.ndarray = NO_LAMPS) -> tuple[np.ndarray, np.ndarray]:
    """Brightness per texel of a polished ball, and the directions its texels lie in."""
    texels = reflection_texture("sphere", BALL, np.eye(3), 0.7, others=others, lamps=lamps, eye=EYE)
    return texels.reshape(-1, 3).astype(float), cube_directions(TEXELS)


def test_cube_directions_cover_the_sphere_evenly_by_face() -> None:
    directions = cube_directions(8)
    np.testing.assert_allclose(np.linalg.norm(directions, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(directions.sum(axis=0), 0, atol=1e-4)
    major = np.abs(directions).argmax(axis=1).reshape(6, 64)
    assert (major == np.array([0, 0, 1, 1, 2, 2])[:, None]).all()


def test_surface_points_lie_on_the_unit_shape() -> None:
    for shape in ("cube", "sphere", "cylinder"):
        points, normals = surface(shape)
        np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1, atol=1e-5)
        assert (dots(points, normals) > 0).all()
        radius = np.hypot(points[:, 0], points[:, 1])
        reach = {
            "sphere": np.linalg.norm(points, axis=1),
            "cube": np.abs(points).max(axis=1),
            "cylinder": np.maximum(radius, np.abs(points[:, 2])),
        }[shape]
        np.testing.assert_allclose(reach, 1, atol=1e-5)
    with pytest.raises(ValueError, match="'cone'"):
        surface("cone")


def test_the_top_reflects_the_dark_sky_and_the_foot_the_ground() -> None:
    shine, directions = _shine([])
    front = directions[:, 0] > 0.3
    assert shine[front & (directions[:, 2] > 0.75)].mean() < 0.5 * shine[front & (directions[:, 2] < -0.2)].mean()


def test_a_red_neighbour_is_seen_on_the_side_it_stands_on() -> None:
    red = Ball(np.array([0.6, 1.6, 0.7]), 0.7, np.array([1.0, 0.0, 0.0]))
    shine, directions = _shine([red])
    redness = shine[:, 0] - shine[:, 1]
    visible = shine.sum(axis=1) > 0
    near = visible & (directions[:, 1] > 0)
    far = visible & (directions[:, 1] < -0.2)
    assert redness[near].max() > 40
    assert redness[far].max() < 5


def test_a_lamp_glints_where_the_mirror_law_says() -> None:
    lamp = np.array([4.0, 3.0, 6.0])
    dull, directions = _shine([])
    bright, _ = _shine([], lamp[None])
    glint = directions[(bright - dull).sum(axis=1).argmax()]
    point = BALL.centre + 0.7 * glint
    halves = [(goal - point) / np.linalg.norm(goal - point) for goal in (lamp, EYE)]
    middle = sum(halves) / np.linalg.norm(sum(halves))
    assert middle @ glint > 0.997
