from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

from cocanet.data.generators import gl, meshes
from cocanet.data.generators.metal import cube_directions
from cocanet.data.generators.render import Bank, Body, Camera, Lamp, Renderer, renderer_for, subpixels
from tests.data.generators.rendering import needs_renderer

SIZE = 96
CAMERA = Camera(position=np.array([6.0, -5.0, 4.0]), forward=np.array([-6.0, 5.0, -3.6]), tangent=0.3)
DAY = Lamp(np.array([0.0, 0.0, 9.0]), np.array([0.0, 0.0, -1.0]), diffuse=0.0, ambient=1.0)
SUN = Lamp(np.array([3.0, 2.0, 6.0]), np.array([-3.0, -2.0, -6.0]), diffuse=0.8, shadow=True, cutoff=60.0)


def _bank() -> Bank:
    compass = (127.5 * (cube_directions(64) + 1)).astype(np.uint8).reshape(6, 64, 64, 3)
    return Bank(
        meshes={"plane": meshes.plane(8), "sphere": meshes.sphere(80), "box": meshes.box(2)},
        textures={"checker": np.kron([[0, 255], [255, 0]], np.ones((8, 8)))[..., None].repeat(3, 2).astype(np.uint8)},
        cubes={"compass": compass},
    )


@pytest.fixture
def renderer() -> Renderer:
    return renderer_for("test", _bank, SIZE)


def _ball(label: int, x: float, y: float, radius: float) -> Body:
    return Body("sphere", label, np.array([x, y, radius]), scale=np.full(3, radius), colour=np.array([1.0, 0.2, 0.1]))


def _ground() -> Body:
    return Body("plane", 0, np.zeros(3), scale=np.array([20.0, 20.0, 1.0]), shadow=False)


def _pixel_rays() -> np.ndarray:
    line = (2 * (np.arange(SIZE) + 0.5) / SIZE - 1) * CAMERA.tangent
    right, up, forward = CAMERA.axes
    rays = forward + line[None, :, None] * right - line[:, None, None] * up
    return rays / np.linalg.norm(rays, axis=-1, keepdims=True)


def _hit(ball: Body) -> np.ndarray:
    """Distance from the camera to a ball along every pixel's ray, infinite where it is missed."""
    rays, offset = _pixel_rays(), CAMERA.position - ball.position
    along = rays @ offset
    space = along**2 - offset @ offset + ball.scale[0] ** 2
    return np.where(space > 0, -along - np.sqrt(np.maximum(space, 0)), np.inf)


@needs_renderer
def test_balls_cover_what_ray_tracing_says(renderer: Renderer) -> None:
    balls = [
        _ball(1, 0.0, 0.0, 0.8),
        _ball(2, 1.2, -0.6, 0.5),
        _ball(3, -1.0, 1.6, 0.9),
        _ball(4, 1.5, 1.0, 0.3),
    ]
    labels = renderer.labels([_ground(), *balls], CAMERA)
    distances = np.stack([_hit(ball) for ball in balls])
    expected = np.where(np.isfinite(distances).any(axis=0), distances.argmin(axis=0) + 1, 0)
    # The mesh has flat facets, so a few pixels of each rim may go either way.
    assert (labels != expected).mean() < 0.002
    assert set(np.unique(labels)) == {0, 1, 2, 3, 4}


@needs_renderer
def test_projection_agrees_with_the_image(renderer: Renderer) -> None:
    for x, y in ((0.0, 0.0), (1.1, 0.4), (-1.2, 0.9), (0.3, -1.3)):
        labels = renderer.labels([_ball(1, x, y, 0.2)], CAMERA)
        rows, columns = np.nonzero(labels)
        expected = CAMERA.project(np.array([[x, y, 0.2]]), SIZE)[0]
        assert columns.mean() + 0.5 == pytest.approx(expected[0], abs=0.35)
        assert rows.mean() + 0.5 == pytest.approx(expected[1], abs=0.35)
        assert expected[2] == pytest.approx(CAMERA.axes[2] @ (np.array([x, y, 0.2]) - CAMERA.position))


@needs_renderer
def test_a_cube_texture_is_looked_up_by_direction(renderer: Renderer) -> None:
    """With every texel coloured by its direction, each pixel of a ball shows the direction of its surface."""
    turned = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    ball = replace(_ball(1, 0.0, 0.0, 1.0), texture="compass", colour=np.ones(3), rotation=turned)
    image = renderer.image([ball], [[DAY]], CAMERA).astype(float)
    distance = _hit(ball)
    seen = np.isfinite(distance) & (renderer.labels([ball], CAMERA) == 1)
    points = CAMERA.position + np.where(seen, distance, 0)[..., None] * _pixel_rays()
    outward = (points - ball.position) @ turned
    error = np.abs(image - 127.5 * (outward + 1))[seen]
    assert np.median(error) < 4
    assert np.quantile(error, 0.98) < 16


@needs_renderer
def test_shadows_only_darken_and_lie_beside_their_caster(renderer: Renderer) -> None:
    bodies = [_ground(), _ball(1, 0.0, 0.0, 0.7)]
    lit = renderer.image(bodies, [[replace(DAY, ambient=0.2), replace(SUN, shadow=False)]], CAMERA).astype(int)
    shaded = renderer.image(bodies, [[replace(DAY, ambient=0.2), SUN]], CAMERA).astype(int)
    ground = renderer.labels(bodies, CAMERA) == 0
    assert (shaded - lit)[ground].max() <= 2
    dark = ground & ((lit - shaded).sum(axis=-1) > 60)
    assert 30 < dark.sum() < 0.3 * ground.sum()
    # The light comes from +x +y, so the shadow lies on the other side.
    rows, columns = np.nonzero(dark)
    middle = CAMERA.project(np.array([[-0.5, -0.35, 0.0]]), SIZE)[0]
    assert np.hypot(columns.mean() - middle[0], rows.mean() - middle[1]) < 12


@needs_renderer
def test_a_hidden_caster_changes_nobody_but_the_shadow(renderer: Renderer) -> None:
    plain = _ball(1, 0.0, 0.0, 0.7)
    cast = replace(plain, caster=("sphere", 0.9))
    np.testing.assert_array_equal(renderer.labels([plain], CAMERA), renderer.labels([cast], CAMERA))
    np.testing.assert_array_equal(renderer.image([plain], [[DAY]], CAMERA), renderer.image([cast], [[DAY]], CAMERA))
    shadows = [renderer.image([_ground(), t], [[SUN]], CAMERA).astype(int) for t in (plain, cast)]
    assert np.abs(shadows[0] - shadows[1]).mean() < 6


@needs_renderer
def test_what_was_drawn_before_leaves_no_trace(renderer: Renderer) -> None:
    simple = [_ground(), _ball(1, 0.5, 0.0, 0.5)]
    before = renderer.image(simple, [[DAY, SUN]], CAMERA), renderer.labels(simple, CAMERA)
    crowd = [_ground(), *(_ball(k + 1, k / 3 - 1, 0.3, 0.3) for k in range(6))]
    renderer.image([replace(body, texture="checker") for body in crowd], [[DAY, SUN, SUN]] * 3, CAMERA)
    after = renderer.image(simple, [[DAY, SUN]], CAMERA), renderer.labels(simple, CAMERA)
    np.testing.assert_array_equal(before[0], after[0])
    np.testing.assert_array_equal(before[1], after[1])


@needs_renderer
def test_too_much_is_refused(renderer: Renderer) -> None:
    with pytest.raises(ValueError, match="9 lamps"):
        renderer.image([_ground()], [[DAY] * 9], CAMERA)
    with pytest.raises(ValueError, match="65 shapes"):
        renderer.labels([_ground()] * 65, CAMERA)


def test_subpixels_are_centred_and_inside() -> None:
    for count in (1, 2, 3, 4, 7):
        points = subpixels(count)
        np.testing.assert_allclose(points.mean(axis=0), 0, atol=1e-12)
        assert np.abs(points).max() < 1
        assert len({tuple(p) for p in points.round(6).tolist()}) == count


def test_without_mujoco_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(gl.RendererUnavailableError, match=r"pip install 'cocanet\[render\]'") as caught:
        gl.import_mujoco()
    assert "\n" not in str(caught.value)


@needs_renderer
def test_without_opengl_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gl, "_contexts", {})
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    monkeypatch.setattr(gl, "_forget_opengl", lambda: None)
    for backend in gl.BACKENDS:
        monkeypatch.setitem(sys.modules, f"mujoco.{backend}", None)
    with pytest.raises(gl.RendererUnavailableError, match=r"libegl1.*libosmesa6.*egl.*osmesa") as caught:
        gl.make_context()
    assert "\n" not in str(caught.value)
