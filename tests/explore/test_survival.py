"""A server that is killed, thousands of images, and many who look at once."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest

from cocanet.explore.message import unpack
from tests.explore.serving import noise, png, serve, small_explorer, write_images
from tests.segment.models import real, weights_file


def start(folder: Path, weights: Path) -> tuple[subprocess.Popen, str]:
    command = [sys.executable, "-m", "cocanet", "explore", str(weights), str(folder), "--no-browser", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    return server, server.stdout.readline().split()[0]


@pytest.mark.slow
def test_a_killed_server_loses_nothing_that_was_answered(tmp_path):
    folder, weights = write_images(tmp_path / "images", 2), weights_file(tmp_path / "w.safetensors")
    server, address = start(folder, weights)
    try:
        with httpx.Client(base_url=address, timeout=60) as client:
            (model,) = client.get("/api/models").json()["models"]
            key = client.get(f"/api/models/{model}/gallery").json()["images"][0][0]
            path = f"/api/models/{model}/images/{key}/labels"
            seen = 0
            for action in ("keep", "merge", "undo", "redo"):
                body = {"action": action, "things": [1, 2], "seen": seen, "level": 3}
                told = unpack(client.post(path, json=body).content)
                seen = told.header["revision"]
            os.kill(server.pid, signal.SIGKILL)
    finally:
        server.kill()
        server.wait()
    server, address = start(folder, weights)
    try:
        again = unpack(httpx.get(f"{address.rstrip('/')}{path}", timeout=60).content)
        assert again.header == told.header
        np.testing.assert_array_equal(again.arrays["labels"], told.arrays["labels"])
        assert not list((folder / "coca-labels").glob("*.tmp"))
    finally:
        server.send_signal(signal.SIGINT)
        assert server.wait(20) in (0, 130)


@pytest.mark.slow
def test_five_thousand_images_open_at_once(tmp_path):
    folder = tmp_path / "many"
    folder.mkdir()
    for index in range(5000):
        (folder / f"{index}.png").write_bytes(png(noise(8, 12, seed=index % 50)))
    start = time.perf_counter()
    explorer = small_explorer(folder)
    with serve(explorer) as running:
        images = running.client.get("/api/models/small/gallery").json()["images"]
        assert len(images) == 5000
        answer = running.client.get(f"/api/models/small/images/{images[4321][0]}/thumbnail")
        assert answer.status_code == 200
        assert time.perf_counter() - start < 6  # two seconds on an idle machine; tests share theirs


def resident() -> int:
    """Memory of this process, the server's too, in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_eight_clients_at_once_without_an_error_or_growing_memory(tmp_path):
    seconds = float(os.environ.get("COCANET_LOAD_SECONDS", "8"))
    folder = write_images(tmp_path / "images", 30, (64, 96))
    segmenter = real()
    with serve(small_explorer(folder)) as running:
        keys = [key for key, _, _ in running.client.get("/api/models/small/gallery").json()["images"]]
        base = str(running.client.base_url)

        def look(client_number: int, until: float) -> int:
            draw, asked = np.random.default_rng(client_number), 0
            with httpx.Client(base_url=base, timeout=60) as client:
                while time.monotonic() < until:
                    number = int(draw.integers(30))
                    path = f"/api/models/small/images/{keys[number]}"
                    slots = int(draw.integers(2, 7))
                    told = client.get(f"{path}/explanation", params={"slots": slots})
                    assert told.status_code == 200
                    if asked % 20 == 0:
                        labels = unpack(told.content).arrays["labels3"]
                        expected = segmenter.segment(noise(64, 96, seed=number), slots=slots).labels
                        np.testing.assert_array_equal(labels, expected)
                    for more in ("landscape", "slots", "thumbnail", "choices"):
                        assert client.get(f"{path}/{more}", params={"slots": slots, "level": 2}).status_code == 200
                    dropped = client.post("/api/images", content=png(noise(40, 40, seed=int(draw.integers(1000)))))
                    assert dropped.status_code == 200
                    asked += 1
            return asked

        def everybody(duration: float) -> int:
            with ThreadPoolExecutor(8) as pool:
                until = time.monotonic() + duration
                return sum(pool.map(look, range(8), [until] * 8))

        everybody(seconds / 2)  # fills what is held
        before = resident()
        asked = everybody(seconds)
        grown = resident() - before
        assert asked > 8
        assert grown < 48 * 2**20, f"{grown / 2**20:.0f} MB more after {asked} rounds"
