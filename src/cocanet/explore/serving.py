"""From the command's words to a running server."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path

import uvicorn

from cocanet.config import DataConfig
from cocanet.data.scenes import SCENE_NAMES, make_scenes
from cocanet.data.splits import SEEDS
from cocanet.data.store_format import is_store
from cocanet.explore.explorer import Explorer
from cocanet.explore.gallery import FolderGallery, Gallery, SceneGallery
from cocanet.explore.guard import Address, is_loopback
from cocanet.explore.server import make_app
from cocanet.models.coca_net import as_coca_net
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
    given = [weights] if weights is not None else sorted(shipped_names(), key=lambda name: (name != FIRST, name))
    models: dict[str, Callable[[], Segmenter]] = {_short(name): cache(partial(load, name, device)) for name in given}
    if weights is not None:
        as_coca_net(models[_short(weights)]().model, "the explorer")
    if not paths:
        made = {name: gallery for name in models if (gallery := _scenes_for(models[name]().preset.data))}
        if not made:
            raise ValueError(
                f"images for {' and '.join(models) or 'no weights'} are not generated; give a folder of them"
            )
        return Explorer({name: models[name] for name in made}, made, Path(labels or FOLDER))
    inputs = find_images(paths, Path(labels or FOLDER))
    folder = Path(labels) if labels else _labels_beside(inputs.root)
    own: Gallery = FolderGallery(inputs, folder.absolute())
    return Explorer(models, dict.fromkeys(models, own), folder)


def _short(weights: str) -> str:
    """A name without slashes, for addresses: the last words of a path."""
    return " ".join(part for part in Path(weights).parts[-2:] if part not in ("/", ".", "..")) or weights


def _labels_beside(root: Path) -> Path:
    """Where labels of images go that nobody said where: beside them, and beside a store that holds them."""
    return root.with_name(f"{root.name}-labels") if is_store(root) else root / FOLDER


def _scenes_for(data: DataConfig) -> Gallery | None:
    """Scenes of a data set that are made as they are asked for; None for photographs, which nobody generates."""
    if data.name not in SCENE_NAMES:
        return None
    make = partial(make_scenes, data.name, count=SCENES, seed=SEED, max_objects=data.max_objects)
    return SceneGallery(data.name, SEED, SCENES, make)


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
