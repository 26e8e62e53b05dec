"""A killed server, thousands of images, and many clients at once."""

import os
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import httpx
import numpy as np
import pytest
from tools.film import served

from cocanet.cli import main
from cocanet.explore.labels import read_document
from cocanet.explore.messages import unpack
from tests.explore.servers import noise, png, serve, small_explorer, url, write_images
from tests.predict.models import real, weights_file

LEAST_EDITS = 2


class Edit(NamedTuple):
    """An acknowledged edit: the image's key, its revision and its labels."""

    key: str
    revision: int
    labels: np.ndarray


class Editor(threading.Thread):
    """Edits images at random, and keeps the revisions that were acknowledged."""

    def __init__(self, number: int, address: str, keys: list[str], model: str, until: float) -> None:
        super().__init__()
        self.draw, self.keys, self.model, self.until = random.Random(number), keys, model, until
        self.client = httpx.Client(timeout=60)
        self.client.get(address)
        self.client.base_url = httpx.URL(address.partition("?")[0])
        self.acknowledged = list[Edit]()
        self.refused = 0

    def run(self) -> None:
        while time.monotonic() < self.until or len(self.acknowledged) < LEAST_EDITS:  # however busy the machine is
            key = self.draw.choice(self.keys)
            path = url(key, "labels", self.model)
            revision = unpack(self.client.get(path).content).header.get("revision", 0)
            action = self.draw.choice(("merge", "undo", "redo", "restart"))
            body = {"action": action, "segments": [1, 2], "revision": revision, "level": 3}
            answer = self.client.post(path, json=body)
            assert answer.status_code in (200, 400, 409)  # done, nothing to undo, or another client was faster
            if answer.status_code == 200:
                message = unpack(answer.content)
                self.acknowledged.append(Edit(key, message.header["revision"], message.arrays["labels"]))
            self.refused += answer.status_code == 409


@pytest.mark.slow
def test_eight_clients_and_a_second_server_lose_no_acknowledged_edit(tmp_path, monkeypatch, capsys):
    """The server is killed at the end; every acknowledged edit is a revision, and the last is on disk."""
    seconds = float(os.environ.get("COCANET_LOAD_SECONDS", "3"))
    folder, weights = write_images(tmp_path / "images", 3), weights_file(tmp_path / "w.safetensors")
    monkeypatch.setattr("cocanet.explore.server.listen", lambda *_: pytest.fail("two servers on one folder"))
    with served(str(weights), str(folder)) as (process, address), httpx.Client() as client:
        client.get(address)
        base = address.partition("?")[0]
        (model,) = client.get(f"{base}api/models").json()["models"]
        images = client.get(f"{base}api/models/{model}/gallery").json()["images"]
        until = time.monotonic() + seconds
        editors = [Editor(number, address, [key for key, _, _ in images], model, until) for number in range(8)]
        for editor in editors:
            editor.start()
        for _ in range(2):
            with pytest.raises(SystemExit) as refused:
                main(["explore", str(weights), str(folder), "--no-browser"])
            assert refused.value.code == 2
            assert f"coca-labels is being edited by process {process.pid}" in capsys.readouterr().err
        for editor in editors:
            editor.join()
        process.kill()
    acknowledged = sorted((one for editor in editors for one in editor.acknowledged), key=lambda one: one.revision)
    for key, name, _ in images:
        edits = [one for one in acknowledged if one.key == key]
        revisions = [one.revision for one in edits]
        document = read_document(folder / "coca-labels" / f"{name}.json")
        last = document.revision if document else 0
        if edits:
            np.testing.assert_array_equal(document.labels(), edits[-1].labels)
        # Each was made on top of the one before, and the last is on disk.
        assert revisions == list(range(last - len(revisions) + 1, last + 1))
        assert revisions[:1] in ([], [1], [2])  # to begin is a revision of its own
    assert not list((folder / "coca-labels").glob("*.tmp"))
    print(f"{len(acknowledged)} edits acknowledged, {sum(editor.refused for editor in editors)} came too late")
    assert len(acknowledged) >= 8 * LEAST_EDITS


@pytest.mark.slow
def test_two_thousand_images_open_at_once(tmp_path):
    folder = tmp_path / "many"
    folder.mkdir()
    for index in range(2000):
        (folder / f"{index}.png").write_bytes(png(noise(8, 12, seed=index % 50)))
    start = time.process_time()
    explorer = small_explorer(folder)
    with serve(explorer) as running:
        images = running.client.get("/api/models/small/gallery").json()["images"]
        assert len(images) == 2000
        answer = running.client.get(f"/api/models/small/images/{images[1721][0]}/thumbnail")
        assert answer.status_code == 200
        assert time.process_time() - start < 4  # one second where nothing else runs


def resident() -> int:
    """Memory of this process, the server's too, in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_eight_clients_at_once_without_an_error_or_growing_memory(tmp_path):
    seconds = float(os.environ.get("COCANET_LOAD_SECONDS", "2"))
    folder = write_images(tmp_path / "images", 30, (64, 96))
    segmenter = real()
    with serve(small_explorer(folder)) as running:
        keys = running.keys()
        base = str(running.client.base_url)

        def look(client_number: int, until: float) -> int:
            draw, rounds = np.random.default_rng(client_number), 0
            with httpx.Client(base_url=base, timeout=60) as client:
                while time.monotonic() < until or rounds < 2:  # however busy the machine is
                    number = int(draw.integers(30))
                    path = f"/api/models/small/images/{keys[number]}"
                    slots = int(draw.integers(2, 7))
                    answer = client.get(f"{path}/explanation", params={"slots": slots})
                    assert answer.status_code == 200
                    if rounds % 20 == 0:
                        labels = unpack(answer.content).arrays["labels3"]
                        expected = segmenter.segment(noise(64, 96, seed=number), slots=slots, min_score=0).labels
                        np.testing.assert_array_equal(labels, expected)
                    for more in ("compactness", "slots", "thumbnail", "steps"):
                        assert client.get(f"{path}/{more}", params={"slots": slots, "level": 2}).status_code == 200
                    dropped = client.post("/api/images", content=png(noise(40, 40, seed=int(draw.integers(1000)))))
                    assert dropped.status_code == 200
                    rounds += 1
            return rounds

        def all_clients(duration: float) -> int:
            with ThreadPoolExecutor(8) as pool:
                until = time.monotonic() + duration
                return sum(pool.map(look, range(8), [until] * 8))

        all_clients(seconds / 2)  # fills the caches
        before = resident()
        rounds = all_clients(seconds)
        grown = resident() - before
        assert grown < 48 * 2**20, f"{grown / 2**20:.0f} MB more after {rounds} rounds"
