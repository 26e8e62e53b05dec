"""Images and instance labels of a scene, rendered by MuJoCo's OpenGL renderer.

One MuJoCo model per process holds all meshes and textures. A scene only fills the renderer's list of shapes, so
nothing is recompiled. An image is the mean of a few exposures: the camera moves by part of a pixel (smooth edges)
and the lamps move a little (soft shadows). Labels are rendered once at the pixels' centres, without smoothing.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8

from cocanet.data.generators.gl import import_mujoco, make_context
from cocanet.data.generators.meshes import Mesh

# What the fixed pipeline of OpenGL has.
MAX_LAMPS = 8
MAX_SHAPES = 64
# The part of a spot light's cone within which bodies cast shadows.
SHADOW_SCALE = 0.65


@dataclass(frozen=True)
class Body:
    """One mesh in the scene: `scale` stretches its own axes, then `rotation` turns them into the world's."""

    mesh: str
    label: int
    position: Float[np.ndarray, " 3"]
    rotation: Float[np.ndarray, "3 3"] = field(default_factory=lambda: np.eye(3))
    scale: Float[np.ndarray, " 3"] = field(default_factory=lambda: np.ones(3))
    colour: Float[np.ndarray, " 3"] = field(default_factory=lambda: np.ones(3))
    texture: str | None = None
    emission: float = 0.0
    specular: float = 0.0
    shininess: float = 0.0
    shadow: bool = True
    # A coarser mesh inside this one, with its relative size, that casts the shadow instead. It is cheaper, and the
    # surface shows no artefacts of its own shadow.
    caster: tuple[str, float] | None = None


@dataclass(frozen=True)
class Lamp:
    """A light: a spot at `position` when it has a `cutoff` (degrees), else one of parallel rays."""

    position: Float[np.ndarray, " 3"]
    direction: Float[np.ndarray, " 3"]
    diffuse: float
    specular: float = 0.0
    ambient: float = 0.0
    shadow: bool = False
    cutoff: float | None = None
    exponent: float = 0.0
    attenuation: tuple[float, float, float] = (1.0, 0.0, 0.0)


@dataclass(frozen=True)
class Camera:
    """A pinhole camera of square images; `tangent` is that of half its field of view."""

    position: Float[np.ndarray, " 3"]
    forward: Float[np.ndarray, " 3"]
    tangent: float
    near: float = 0.1
    far: float = 60.0

    @cached_property
    def axes(self) -> Float[np.ndarray, "3 3"]:
        """Rows: right, up and forward, unit length, right level with the ground."""
        forward = self.forward / np.linalg.norm(self.forward)
        right = np.array([forward[1], -forward[0], 0.0]) / np.hypot(forward[0], forward[1])
        return np.stack([right, np.cross(right, forward), forward])

    def project(self, points: Float[np.ndarray, "n 3"], size: int) -> Float[np.ndarray, "n 3"]:
        """Column and row in pixels (the first pixel's centre is 0.5) and the distance along the view."""
        right, up, depth = ((points - self.position) @ self.axes.T).T
        half = size / 2
        scale = half / self.tangent / depth
        return np.stack([half + scale * right, half - scale * up, depth], axis=1)


@dataclass(frozen=True)
class Bank:
    """All meshes, square textures and cube textures (six faces) of a set of scenes, by name."""

    meshes: Mapping[str, Mesh]
    textures: Mapping[str, UInt8[np.ndarray, "s s 3"]] = field(default_factory=dict)
    cubes: Mapping[str, UInt8[np.ndarray, "6 c c 3"]] = field(default_factory=dict)
    shadow_pixels: int = 1024
    shadow_extent: float = 8.0


class Renderer:
    """The renderer of one process for one bank and one image size."""

    def __init__(self, bank: Bank, size: int) -> None:
        self._mujoco = import_mujoco()
        make_context()
        self.size = size
        self._mesh_ids = {name: k for k, name in enumerate(bank.meshes)}
        self._material_ids = {name: k for k, name in enumerate([*bank.textures, *bank.cubes])}
        self._cube_names = frozenset(bank.cubes)
        self._model = _compile(self._mujoco, bank, size)
        self._scene = self._mujoco.MjvScene(self._model, maxgeom=MAX_SHAPES)
        self._context = self._mujoco.MjrContext(self._model, self._mujoco.mjtFontScale.mjFONTSCALE_50)
        self._viewport = self._mujoco.MjrRect(0, 0, size, size)
        self._buffer = np.zeros((size, size, 3), np.uint8)
        self._scene.flags[self._mujoco.mjtRndFlag.mjRND_CULL_FACE] = 1
        for flag in ("FOG", "HAZE", "SKYBOX", "REFLECTION"):
            self._scene.flags[getattr(self._mujoco.mjtRndFlag, f"mjRND_{flag}")] = 0

    def set_texture(self, name: str, texels: UInt8[np.ndarray, "*shape"]) -> None:
        """Replace the texels of one of the bank's textures."""
        make_context()
        texture = self._material_ids[name]
        start = self._model.tex_adr[texture]
        self._model.tex_data[start : start + texels.size] = texels.reshape(-1)
        self._mujoco.mjr_uploadTexture(self._model, self._context, texture)

    def labels(self, bodies: Sequence[Body], camera: Camera) -> UInt8[np.ndarray, "h w"]:
        """The label at every pixel's centre, 0 where no body is."""
        self._begin(bodies)
        flags = self._mujoco.mjtRndFlag
        self._aim(camera, 0.0, 0.0)
        for flag in (flags.mjRND_SEGMENT, flags.mjRND_IDCOLOR):
            self._scene.flags[flag] = 1
        identity = self._expose()[..., 0].astype(np.int16)
        for flag in (flags.mjRND_SEGMENT, flags.mjRND_IDCOLOR):
            self._scene.flags[flag] = 0
        # The renderer writes the label plus one, and 0 where it drew nothing.
        return np.maximum(identity - 1, 0).astype(np.uint8)

    def image(
        self, bodies: Sequence[Body], exposures: Sequence[Sequence[Lamp]], camera: Camera
    ) -> UInt8[np.ndarray, "h w 3"]:
        """The mean of one exposure per list of lamps, each through another point of the pixels."""
        self._begin(bodies)
        total = np.zeros((self.size, self.size, 3), np.uint32)
        for (across, down), lamps in zip(subpixels(len(exposures)), exposures, strict=True):
            self._aim(camera, across, down)
            self._light(lamps)
            total += self._expose()
        count = len(exposures)
        return ((total + count // 2) // count).astype(np.uint8)

    def _begin(self, bodies: Sequence[Body]) -> None:
        make_context()
        self._mujoco.mjr_setBuffer(self._mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)
        shapes = [shape for body in bodies for shape in _with_caster(body)]
        if len(shapes) > MAX_SHAPES:
            raise ValueError(f"{len(shapes)} shapes in a scene, at most {MAX_SHAPES} fit")
        self._scene.ngeom = len(shapes)
        for slot, shape in enumerate(shapes):
            self._place(self._scene.geoms[slot], shape)

    def _place(self, geom: Any, body: Body) -> None:
        mujoco = self._mujoco
        matrix = (body.rotation * body.scale).astype(np.float64)
        rgba = np.append(body.colour, 1.0).astype(np.float32)
        mesh = mujoco.mjtGeom.mjGEOM_MESH
        mujoco.mjv_initGeom(geom, mesh, np.zeros(3), body.position.astype(np.float64), matrix.reshape(-1), rgba)
        # The even entries are the meshes, the odd ones their convex hulls.
        geom.dataid = 2 * self._mesh_ids[body.mesh]
        # Decoration casts no shadow, which halves the cost of a ground that could not cast one anyway.
        geom.category = mujoco.mjtCatBit.mjCAT_DYNAMIC if body.shadow else mujoco.mjtCatBit.mjCAT_DECOR
        geom.segid = body.label
        geom.matid = -1 if body.texture is None else self._material_ids[body.texture]
        geom.texcoord = int(body.texture is not None and body.texture not in self._cube_names)
        geom.emission, geom.specular, geom.shininess = body.emission, body.specular, body.shininess
        geom.reflectance = 0.0

    def _aim(self, camera: Camera, across: float, down: float) -> None:
        """Set both cameras of the scene, shifted by part of a pixel."""
        pixel = 2 * camera.tangent * camera.near / self.size
        half = camera.tangent * camera.near
        _, up, forward = camera.axes
        for eye in self._scene.camera:
            eye.pos, eye.forward, eye.up = camera.position, forward, up
            eye.frustum_center = across * pixel
            # Zero lets the renderer take the width from the height.
            eye.frustum_width = 0.0
            eye.frustum_bottom, eye.frustum_top = -half - down * pixel, half - down * pixel
            eye.frustum_near, eye.frustum_far = camera.near, camera.far

    def _light(self, lamps: Sequence[Lamp]) -> None:
        if len(lamps) > MAX_LAMPS:
            raise ValueError(f"{len(lamps)} lamps in one exposure, OpenGL has {MAX_LAMPS}")
        self._scene.nlight = len(lamps)
        types = self._mujoco.mjtLightType
        for slot, lamp in enumerate(lamps):
            light = self._scene.lights[slot]
            light.id = slot
            light.pos, light.dir = lamp.position, lamp.direction / np.linalg.norm(lamp.direction)
            light.type = types.mjLIGHT_DIRECTIONAL if lamp.cutoff is None else types.mjLIGHT_SPOT
            light.cutoff = 45.0 if lamp.cutoff is None else lamp.cutoff
            light.exponent, light.attenuation = lamp.exponent, np.array(lamp.attenuation)
            light.diffuse, light.specular, light.ambient = (
                np.full(3, value) for value in (lamp.diffuse, lamp.specular, lamp.ambient)
            )
            light.headlight, light.castshadow = 0, lamp.shadow

    def _expose(self) -> UInt8[np.ndarray, "h w 3"]:
        self._mujoco.mjr_render(self._viewport, self._scene, self._context)
        self._mujoco.mjr_readPixels(self._buffer, None, self._viewport, self._context)
        return self._buffer[::-1].copy()


def _with_caster(body: Body) -> tuple[Body, ...]:
    """The shapes that render a body: itself, and the one inside it that casts its shadow."""
    if body.caster is None:
        return (body,)
    mesh, size = body.caster
    # It shrinks towards a point near the base: little light passes under it, and no corner sticks out.
    lowered = body.position - 0.4 * (1 - size) * body.scale[2] * body.rotation[:, 2]
    inside = replace(body, mesh=mesh, position=lowered, scale=body.scale * size, texture=None, caster=None)
    return replace(body, shadow=False), inside


def subpixels(count: int) -> Float[np.ndarray, "count 2"]:
    """`count` points spread over a pixel, their mean at its centre (the R2 sequence, centred)."""
    steps = np.outer(np.arange(count) + 0.5, [0.7548776662466927, 0.5698402909980532])
    points = steps % 1.0
    centred: Float[np.ndarray, "count 2"] = points - points.mean(axis=0)
    return centred


def _compile(mujoco: Any, bank: Bank, size: int) -> Any:
    """A model without bodies that holds the bank's meshes and textures, one material per texture."""
    spec = mujoco.MjSpec()
    spec.visual.quality.offsamples = 0
    spec.visual.quality.shadowsize = bank.shadow_pixels
    spec.visual.global_.offwidth = spec.visual.global_.offheight = size
    spec.visual.map.shadowclip, spec.visual.map.shadowscale = bank.shadow_extent, SHADOW_SCALE
    spec.stat.extent = 1.0
    for name, mesh in bank.meshes.items():
        spec.add_mesh(
            name=name,
            uservert=mesh.vertices.reshape(-1),
            usernormal=mesh.normals.reshape(-1),
            usertexcoord=mesh.texcoords.reshape(-1),
            userface=mesh.faces.reshape(-1),
            inertia=mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL,
        )
    for name, texels in [*bank.textures.items(), *bank.cubes.items()]:
        kind = mujoco.mjtTexture.mjTEXTURE_2D if name in bank.textures else mujoco.mjtTexture.mjTEXTURE_CUBE
        side, flat = texels.shape[1], mujoco.mjtBuiltin.mjBUILTIN_FLAT
        spec.add_texture(name=name, type=kind, width=side, height=side, nchannel=3, builtin=flat)
        material = spec.add_material(name=name)
        roles = list(material.textures)
        roles[mujoco.mjtTextureRole.mjTEXROLE_RGB] = name
        material.textures = roles
    model = spec.compile()
    # The compiler turns meshes to their inertia frames; the scene wants them as they were made.
    for k, mesh in enumerate(bank.meshes.values()):
        vertex, normal = model.mesh_vertadr[k], model.mesh_normaladr[k]
        model.mesh_vert[vertex : vertex + len(mesh.vertices)] = mesh.vertices
        model.mesh_normal[normal : normal + len(mesh.normals)] = mesh.normals
    for k, texels in enumerate([*bank.textures.values(), *bank.cubes.values()]):
        start = model.tex_adr[k]
        model.tex_data[start : start + texels.size] = texels.reshape(-1)
    return model


_renderers: dict[tuple[int, str, int], Renderer] = {}


def renderer_for(name: str, bank: Callable[[], Bank], size: int) -> Renderer:
    """This process's renderer for a bank, made on first use. A forked child makes its own."""
    key = (os.getpid(), name, size)
    if key not in _renderers:
        _renderers[key] = Renderer(bank(), size)
        # Before the context goes, which was made earlier and so is closed later.
        atexit.register(_drop, key)
    return _renderers[key]


def _drop(key: tuple[int, str, int]) -> None:
    if key[0] == os.getpid():
        _renderers.pop(key, None)
