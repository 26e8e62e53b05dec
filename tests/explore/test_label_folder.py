"""The folder of labels: one server, no photographs, every label exported or named."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cocanet.data.readers.folder import FolderReader
from cocanet.explore import editing
from cocanet.explore.export_labels import LabelledImage, export_labels
from cocanet.explore.labels import LOCK, LabelFolder
from cocanet.files import temporary_name
from cocanet.predict.inputs import find_images
from cocanet.predict.segment_settings import SegmentSettings
from tests.explore.servers import noise, png, serve, small_explorer, write_images

SETTINGS = SegmentSettings()
DIE = """
import os, sys, time
from pathlib import Path
from cocanet.files import hold
with hold(Path(sys.argv[1]), "is being edited"):
    print("held", flush=True)
    time.sleep(60)
"""


def keep(explorer, name: str) -> None:
    """Label an image as predicted."""
    (entry,) = [entry for entry in explorer.entries("small") if entry.name == name]
    explorer.edit("small", entry.key, SETTINGS, "keep", level=3, revision=0)


def test_labels_of_images_in_a_folder_called_exported_are_exported(tmp_path):
    folder = write_images(tmp_path / "photos", 1)
    write_images(folder / "exported", 2)
    explorer = small_explorer(folder)
    for name in ("0.png", "exported/0.png", "exported/1.png"):
        keep(explorer, name)
    for _ in range(2):  # a restarted server, and then one that finds exports
        exported, errors = small_explorer(folder).export("small", "coco")
        assert errors == []
        names = [image["file_name"] for image in json.loads(exported.path.read_text())["images"]]
        assert sorted(names) == ["0.png", "exported/0.png", "exported/1.png"]


def test_labels_without_their_image_are_named(tmp_path):
    folder = write_images(tmp_path / "photos", 3)
    explorer = small_explorer(folder)
    keep(explorer, "0.png")
    keep(explorer, "2.png")
    (folder / "2.png").unlink()
    _, errors = small_explorer(folder).export("small", "png")
    assert errors == ["2.png has labels, but the image is not here"]


@pytest.mark.parametrize("pattern", [".", "**/*.png"])
def test_labels_are_no_photographs(tmp_path, pattern):
    folder = write_images(tmp_path / "photos", 3)
    explorer = small_explorer(folder)
    with explorer.labels.held():
        keep(explorer, "0.png")
        dropped = explorer.drop(png(noise(9, 9)), "dropped.png")
        explorer.edit("small", dropped.key, SETTINGS, "keep", level=3, revision=0)
        exported, _ = explorer.export("small", "png")
    assert len(list((folder / "coca-labels").rglob("*.png"))) == 3
    assert len(find_images([folder / pattern if "*" in pattern else folder], tmp_path / "out").files) == 3
    assert len(FolderReader(folder, size=16)) == 3
    assert len(find_images([exported.path], tmp_path / "out").files) == 2  # unless they are named


def test_exported_masks_are_imported_by_the_documented_command(tmp_path):
    """Also where two images differ in their suffixes only."""
    folder = write_images(tmp_path / "photos", 2, (16, 16))
    Image.fromarray(noise(16, 16, seed=7)).save(folder / "1.bmp")
    explorer = small_explorer(folder)
    with explorer.labels.held():
        for entry in explorer.entries("small"):
            keep(explorer, entry.name)
        exported, errors = explorer.export("small", "png")
    assert not errors
    found = FolderReader(folder, masks=exported.path, size=16)
    names = [entry.name for entry in explorer.entries("small")]
    assert len(found) == 3
    for index, name in enumerate(names):
        document = explorer.labels.read(name)
        assert document is not None
        np.testing.assert_array_equal(found[index].labels > 0, document.labels() > 0)
        np.testing.assert_array_equal(found[index].image, np.asarray(Image.open(folder / name)))


def test_one_server_edits_a_folder(tmp_path):
    labels = LabelFolder(tmp_path / "labels")
    with labels.held():
        held = json.loads((tmp_path / "labels" / LOCK).read_text())
        assert held["pid"] == os.getpid()
        with pytest.raises(ValueError, match=rf"labels is being edited by process {os.getpid()} on .*; end it first"):
            LabelFolder(tmp_path / "labels").held().__enter__()
    assert not (tmp_path / "labels").exists()  # nothing was labelled


def test_the_lock_of_a_killed_server_is_taken_over(tmp_path):
    lock = tmp_path / LOCK
    with subprocess.Popen([sys.executable, "-c", DIE, str(lock)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with pytest.raises(ValueError, match=f"by process {process.pid} on "):
            LabelFolder(tmp_path).held().__enter__()
        process.kill()
    assert lock.exists()
    with LabelFolder(tmp_path).held():
        assert json.loads(lock.read_text())["pid"] == os.getpid()


def test_the_lock_of_another_machine_holds_until_it_is_deleted(tmp_path):
    lock = tmp_path / LOCK
    lock.write_text(json.dumps({"pid": 12, "host": "elsewhere", "since": "2025-01-01T00:00:00"}))
    with pytest.raises(ValueError, match=f"process 12 on elsewhere since .*; if that has ended, delete {lock}"):
        LabelFolder(tmp_path).held().__enter__()
    lock.unlink()
    with LabelFolder(tmp_path).held():
        pass


@pytest.mark.parametrize("damage", ["[" * 100_000, '{"format": "cocanet labels", "version": 1}', "null", ""])
def test_a_bad_document_is_named_and_skipped(tmp_path, damage):
    folder = write_images(tmp_path / "photos", 3)
    explorer = small_explorer(folder)
    for name in ("0.png", "1.png", "2.png"):
        keep(explorer, name)
    (folder / "coca-labels" / "1.png.json").write_text(damage)
    exported, errors = small_explorer(folder).export("small", "coco")
    assert [image["file_name"] for image in json.loads(exported.path.read_text())["images"]] == ["0.png", "2.png"]
    assert len(errors) == 1
    assert errors[0].startswith(str(folder / "coca-labels" / "1.png.json"))
    assert "\n" not in errors[0]


def test_simultaneous_exports_do_not_share_names(tmp_path):
    folder = write_images(tmp_path / "photos", 4)
    explorer = small_explorer(folder)
    for name in ("0.png", "1.png", "2.png"):
        keep(explorer, name)
    found, failures = list[Path](), list[Exception]()

    def export(kind) -> None:
        try:
            found.append(explorer.export("small", kind)[0].path)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=export, args=(kind,)) for kind in ("store", "coco", "png") * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(set(found)) == 5
    assert len({temporary_name(tmp_path / "a") for _ in range(100)}) == 100


def test_names_that_are_not_utf8(tmp_path):
    folder = write_images(tmp_path / "photos", 1)
    odd = os.fsdecode(b"caf\xe9.png")
    shutil.copy(folder / "0.png", folder / odd)
    explorer = small_explorer(folder)
    keep(explorer, odd)
    with serve(explorer) as running:
        images = running.client.get("/api/models/small/gallery").json()["images"]
        assert sorted(name for _, name, _ in images) == ["0.png", "caf\N{REPLACEMENT CHARACTER}.png"]
        for key, _, _ in images:
            assert running.message(f"/api/models/small/images/{key}/explanation").header["image"]["name"]
        for kind in ("coco", "png", "store"):
            answer = running.client.post(f"/api/models/small/export/{kind}")
            assert answer.json()["errors"] == []
    with small_explorer(folder).labels.held():
        exported, _ = small_explorer(folder).export("small", "png")
    assert (exported.path / odd).exists()
    assert len(FolderReader(folder, size=16)) == 2


def test_export_names_are_those_of_the_images(tmp_path):
    images = [
        LabelledImage(name, document, lambda: noise(4, 4))
        for name, document in ((name, begun(name)) for name in ("a.png", "a.jpg", "below/b.jpg"))
    ]
    folder = export_labels("png", images, tmp_path, 16).path
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.png"))
    assert files == ["a.jpg.png", "a.png", "below/b.png"]


def begun(name: str):
    return editing.begin(name, "weights", np.eye(4, dtype=np.int64), level=2)
