"""Explorers of small models, and a server for them in a thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import httpx
import numpy as np
import pytest
from PIL import Image

pytest.importorskip("fastapi", reason="the explorer needs cocanet[explore]")
pytest.importorskip("uvicorn", reason="the explorer needs cocanet[explore]")

from cocanet.explore.explorer import Explorer
from cocanet.explore.gallery import FolderGallery
from cocanet.explore.guard import Address
from cocanet.explore.messages import Message, unpack
from cocanet.explore.server import listen, make_server
from cocanet.predict.inputs import find_images
from tests.predict.models import real


class Running(NamedTuple):
    """A running server, and a client for it."""

    client: httpx.Client
    address: Address
    explorer: Explorer

    def message(self, path: str, **options) -> Message:
        answer = self.client.get(path, **options)
        assert answer.status_code == 200, answer.text
        return unpack(answer.content)

    def keys(self, model: str = "small") -> list[str]:
        return [key for key, _, _ in self.client.get(f"/api/models/{model}/gallery").json()["images"]]

    def edit(self, key: str, action: str, revision: int, segments=(), *, level: int = 3, **settings):
        body = {"action": action, "revision": revision, "segments": list(segments), "level": level}
        return self.client.post(url(key, "labels"), json=body, params=settings)


def url(key: str, what: str, model: str = "small") -> str:
    return f"/api/models/{model}/images/{key}/{what}"


def noise(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def png(pixels: np.ndarray) -> bytes:
    file = BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def write_images(folder: Path, count: int, size: tuple[int, int] = (16, 24)) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for index in range(count):
        (folder / f"{index}.png").write_bytes(png(noise(*size, seed=index)))
    return folder


def small_explorer(folder: Path, labels: Path | None = None) -> Explorer:
    """An untrained model of three levels on a folder of images."""
    labels = labels or folder / "coca-labels"
    segmenter = real()
    gallery = FolderGallery(find_images([folder], labels), labels)
    return Explorer({"small": lambda: segmenter}, {"small": gallery}, labels)


@contextmanager
def serve(explorer: Explorer, token: str | None = None) -> Iterator[Running]:
    socket, address = listen("127.0.0.1", 0)
    address = Address(address.host, address.port, token)
    server = make_server(explorer, address)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]}, daemon=True)
    thread.start()
    for _ in range(400):
        if server.started:
            break
        time.sleep(0.025)
    assert server.started
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{address.port}", timeout=60) as client:
            yield Running(client, address, explorer)
    finally:
        server.should_exit = True
        thread.join(10)
        socket.close()
