"""From the command's words to a running server."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import uvicorn

from cocanet.data.scenes import SCENE_NAMES, make_scenes
from cocanet.data.splits import SEEDS
from cocanet.data.store_format import is_store
from cocanet.explore.explorer import Explorer
from cocanet.explore.gallery import FolderGallery, Gallery, SceneGallery
from cocanet.explore.guard import Address, is_loopback
from cocanet.explore.server import make_app
from cocanet.segment.paths import find_images
from cocanet.segment.segmenter import Segmenter, load
from cocanet.weights import shipped_names

FIRST = "multi-dsprites"
"""The weights that a page without any begins with."""
SCENES = 60
SEED = 1 + max(SEEDS.values())
"""Of scenes that no model was trained, validated or tested on."""
USUAL_PORT = 8642
FOLDER = "coca-labels"


def open_explorer(
    weights: str | None, paths: Sequence[str], labels: Path | None = None, device: str = "cpu"
) -> Explorer:
    """Models and images: weights or all that come with the package, images or scenes of each model's own kind."""
    names = [weights] if weights is not None else sorted(shipped_names(), key=lambda name: (name != FIRST, name))
    if not names:
        raise ValueError("the package has no weights; give the path of some")
    loaded: dict[str, Segmenter] = {}
    if weights is not None:
        loaded[weights] = load(weights, device)
    models: dict[str, Callable[[], Segmenter]] = {
        name: (partial(loaded.__getitem__, name) if name in loaded else partial(load, name, device)) for name in names
    }
    if not paths:
        folder = Path(labels or FOLDER)
        return Explorer(models, {name: _scenes_for(models[name]) for name in names}, folder)
    inputs = find_images(paths, Path(labels or FOLDER))
    folder = Path(labels) if labels else _labels_beside(inputs.root)
    gallery: Gallery = FolderGallery(inputs, folder.absolute())
    return Explorer(models, dict.fromkeys(names, gallery), folder)


def _labels_beside(root: Path) -> Path:
    """Where labels of images go that nobody said where: beside them, and beside a store that holds them."""
    return root.with_name(f"{root.name}-labels") if is_store(root) else root / FOLDER


def _scenes_for(open_segmenter: Callable[[], Segmenter]) -> Gallery:
    data = open_segmenter().preset.data
    if data.name not in SCENE_NAMES:
        raise ValueError(f"{data.name} are photographs, which are not generated; give a folder of images")
    source = make_scenes(data.name, count=SCENES, seed=SEED, max_objects=data.max_objects)
    return SceneGallery(f"{data.name}-{SEED}", source)


def listen(host: str, port: int | None) -> tuple[socket.socket, Address]:
    """A socket to serve on, at the usual port or any other that is free; beyond this machine with a token."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    last: OSError | None = None
    for wanted in (USUAL_PORT, 0) if port is None else (port,):
        try:
            open_socket = socket.create_server((host, wanted), family=family)
        except OSError as error:
            last = error
            continue
        token = None if is_loopback(host) else secrets.token_urlsafe(24)
        return open_socket, Address(host, open_socket.getsockname()[1], token)
    raise ValueError(f"cannot listen at {host}:{port or USUAL_PORT}: {last.strerror if last else 'no port'}")


def make_server(explorer: Explorer, address: Address, started: Callable[[], None] | None = None) -> uvicorn.Server:
    """A server for `run(sockets=[…])`; `started` is called when it answers."""
    config = uvicorn.Config(
        make_app(explorer, address),
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=2,
        server_header=False,
        ws="none",
    )
    server = _Server(config)
    server.started_hook = started
    return server


class _Server(uvicorn.Server):
    started_hook: Callable[[], None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started_hook is not None:
            self.started_hook()
