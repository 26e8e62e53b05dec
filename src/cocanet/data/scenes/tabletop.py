"""The camera, lamps and ground that CLEVR and CLEVRTex share.

The picture is the protocol's crop of a CLEVR frame: 192 of 240 × 320 pixels, taken by a lens of 35 mm on a
sensor of 32 mm from about ten units away.
"""

from __future__ import annotations

import numpy as np

from cocanet.data.scenes import meshes
from cocanet.data.scenes.meshes import Mesh
from cocanet.data.scenes.render import Camera, Lamp, Thing

CROP_SIDE = 192
# Half the crop's width over half the frame's, times the tangent of half the lens's field of view.
TANGENT = 96 / 160 * 16 / 35
CAMERA = np.array([7.3, -6.8, 5.0])
TARGET = np.array([0.0, 0.0, 0.15])
CAMERA_JITTER = 0.5
LAMP_JITTER = 1.0
EXPOSURES = 4
GROUND_HALF = 30.0

# Position, brightness and size (the spread of the points it shines from) of the key, fill and back lamps.
LAMPS = (
    (np.array([6.0, -2.8, 6.2]), 0.21, 0.55),
    (np.array([-4.7, -4.2, 6.0]), 0.13, 0.8),
    (np.array([-1.2, 3.6, 7.0]), 0.14, 0.8),
)
AMBIENT = 0.5


def sample_camera(rng: np.random.Generator) -> Camera:
    """CLEVR's camera, moved by up to half a unit along each axis and still looking at the middle."""
    position = CAMERA + rng.uniform(-CAMERA_JITTER, CAMERA_JITTER, 3)
    return Camera(position=position, forward=TARGET - position, tangent=TANGENT, near=1.0, far=60.0)


def sample_lamps(rng: np.random.Generator, brighter: float = 1.0, ambient: float = AMBIENT) -> list[list[Lamp]]:
    """The lamps of every exposure: each at its jittered place, shining from another point of its surface."""
    centres = [position + rng.uniform(-LAMP_JITTER, LAMP_JITTER, 3) for position, _, _ in LAMPS]
    exposures = []
    phase = rng.uniform(0, 2 * np.pi, len(LAMPS))
    for k in range(EXPOSURES):
        lamps = [Lamp(np.array([0.0, 0.0, 9.0]), np.array([0.0, 0.0, -1.0]), diffuse=0.02, ambient=ambient)]
        for centre, angle, (_, brightness, spread) in zip(centres, phase, LAMPS, strict=True):
            turn = angle + 2 * np.pi * k / EXPOSURES
            point = centre + spread * np.array([np.cos(turn), np.sin(turn), 0.3 * np.sin(2 * turn)])
            lamps.append(
                Lamp(
                    position=point,
                    direction=-point,
                    diffuse=brighter * brightness,
                    specular=brightness,
                    shadow=True,
                    cutoff=50.0,
                    exponent=4.0,
                )
            )
        exposures.append(lamps)
    return exposures


def casters() -> dict[str, Mesh]:
    """Coarse meshes that cast the shadows of the shapes of both sets, drawn small enough to stay inside."""
    return {
        "coarse cube": meshes.box(2),
        "coarse sphere": meshes.sphere(16),
        "coarse cylinder": meshes.cylinder(18, stacks=0),
        "coarse head": meshes.head(16),
    }


def ground(colour: float, texture: str | None = None) -> Thing:
    """The table: a square so large that no camera sees its end."""
    return Thing(
        mesh="plane",
        label=0,
        position=np.zeros(3),
        scale=np.array([GROUND_HALF, GROUND_HALF, 1.0]),
        colour=np.full(3, colour),
        texture=texture,
        shadow=False,
    )
