"""One off-screen OpenGL context per process, from EGL, else from OSMesa."""

from __future__ import annotations

import atexit
import importlib
import os
import sys
from typing import Any

BACKENDS = ("egl", "osmesa")

# A parent's context stays referenced here after a fork: freeing it in the child would call into its OpenGL.
_contexts: dict[int, Any] = {}


class RendererUnavailableError(ImportError, ValueError):
    """MuJoCo or an off-screen OpenGL is missing; the message is the one line that says what to install."""


def _forget_opengl() -> None:
    """PyOpenGL fixes its platform when first imported; drop it so that another backend can be tried."""
    os.environ.pop("PYOPENGL_PLATFORM", None)
    stale = ("OpenGL", "OpenGL.", "mujoco.egl", "mujoco.osmesa")
    for name in [name for name in sys.modules if name == stale[0] or name.startswith(stale[1:])]:
        del sys.modules[name]


def _wanted() -> tuple[str, ...]:
    chosen = os.environ.get("MUJOCO_GL", "").lower()
    return (chosen,) if chosen in BACKENDS else BACKENDS


def import_mujoco() -> Any:
    """The mujoco module, or one line that says how to get it."""
    try:
        return importlib.import_module("mujoco")
    except ImportError as error:
        raise RendererUnavailableError(
            f"rendered scenes need MuJoCo, install it with: pip install 'cocanet[render]' ({error})"
        ) from None


def _close(process: int) -> None:
    """Free a process's context before Python shuts down; a forked child leaves its parent's alone."""
    if process == os.getpid() and process in _contexts:
        _contexts.pop(process).free()


def make_context() -> None:
    """Create this process's context if it has none, and make it current."""
    if os.getpid() in _contexts:
        _contexts[os.getpid()].make_current()
        return
    import_mujoco()
    # Software OpenGL starts a thread per core; the workers are processes, and threads do not survive a fork.
    os.environ.setdefault("LP_NUM_THREADS", "0")
    failures = []
    given = os.environ.get("MUJOCO_GL")
    for backend in _wanted():
        # MuJoCo reads it too, to find the functions of the same library.
        os.environ["MUJOCO_GL"] = backend
        try:
            # The size is that of OSMesa's own window, which nothing is drawn to.
            context = importlib.import_module(f"mujoco.{backend}").GLContext(16, 16)
            context.make_current()
        except Exception as error:  # each driver fails in its own way, and the next backend may work
            reason = str(error).splitlines() or [type(error).__name__]
            failures.append(f"{backend}: {reason[0]}")
            _forget_opengl()
            continue
        _contexts[os.getpid()] = context
        atexit.register(_close, os.getpid())
        return
    if given is None:
        del os.environ["MUJOCO_GL"]
    else:
        os.environ["MUJOCO_GL"] = given
    raise RendererUnavailableError(
        "rendered scenes need off-screen OpenGL, install libegl1 with libegl-mesa0 (or a GPU driver), or "
        f"libosmesa6; tried {'; '.join(failures)}"
    )
