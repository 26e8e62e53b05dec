"""`python -m cocanet.doctor.drawing` draws one scene; exit code 2 and a sentence if something is not installed."""

from __future__ import annotations

import sys


def draw() -> int:
    from cocanet.data.scenes import make_scenes
    from cocanet.data.scenes.gl import RendererUnavailableError

    try:
        image = make_scenes("objects-room", count=1, seed=0)[0].image
    except RendererUnavailableError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if not image.std() > 0:
        sys.stderr.write("the picture of a scene is empty\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(draw())
