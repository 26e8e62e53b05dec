from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cocanet.cli import main
from cocanet.data.generators.tetrominoes import Tetrominoes
from cocanet.data.sample import Sample
from cocanet.data.store import Store
from cocanet.data.store_writer import write_store
from cocanet.data.summary import count_objects, draw_sheet, mask_colours
from cocanet.labels import UNLABELLED
from tests.data.sources import NoiseSource


def _refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Run a command that must fail with one line and exit code 2; returns the line."""
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.startswith("coca: ")
    return error


def test_scenes_info_and_show_go_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, sheet = tmp_path / "store", tmp_path / "pictures" / "sheet.png"
    main(["scenes", "multi-dsprites", "--count", "60", "--seed", "4", "--out", str(out), "--max-objects", "3"])
    said = capsys.readouterr().out
    assert "60 samples, about 992.2 kB to write" in said.replace("\n", " ")
    assert len(Store(out)) == 60

    main(["data", "info", str(out)])
    said = capsys.readouterr().out
    for fact in (
        "multi-dsprites",
        "seed 4",
        "60 of 64×64",
        "1 background",
        "2 to 3 in an image",
        "all sha256",
    ):
        assert fact in said

    main(["data", "show", str(out), "--out", str(sheet), "--count", "6"])
    with Image.open(sheet) as picture:
        assert picture.width > picture.height > 128


def test_info_reports_damage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_store(NoiseSource(9), tmp_path / "store")
    path = tmp_path / "store" / "shard-00000.labels.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"\x77")
    assert "shard-00000.labels.npy was altered" in _refused(capsys, "data", "info", tmp_path / "store")


def test_mistakes_end_with_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "store"
    assert "did you mean clevrtex?" in _refused(capsys, "scenes", "clevertex", "--count", 5, "--out", out)
    assert "count must be at least 1" in _refused(capsys, "scenes", "tetrominoes", "--count", 0, "--out", out)
    assert "is not a store" in _refused(capsys, "data", "info", out)
    assert "is not a store" in _refused(capsys, "data", "show", out)
    assert "'zip'" in _refused(capsys, "import", "zip", tmp_path, "--out", out)
    assert not out.exists()
    write_store(Tetrominoes(9, seed=0), out)
    assert "count: 9, not 10" in _refused(capsys, "scenes", "tetrominoes", "--count", 10, "--out", out)
    assert "holds 9" in _refused(capsys, "data", "show", out, "--first", 9)


def test_a_damaged_image_names_the_flag_that_leaves_it_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (20, 20)).save(tmp_path / "photos" / "a.png")
    (tmp_path / "photos" / "b.png").write_bytes(b"nothing")
    command = ["import", "folder", tmp_path / "photos", "--out"]
    error = _refused(capsys, *command, tmp_path / "store")
    assert f"{tmp_path / 'photos' / 'b.png'}: not an image; with --skip-damaged such images are left out" in error
    main([str(word) for word in (*command, tmp_path / "other", "--skip-damaged")])
    assert len(Store(tmp_path / "other")) == 1


def test_another_size_is_named_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (20, 20)).save(tmp_path / "photos" / "a.png")
    command = ["import", "folder", tmp_path / "photos", "--out", tmp_path / "store", "--size"]
    main([str(word) for word in (*command, 16)])
    assert "1 sample, about" in " ".join(capsys.readouterr().out.split())
    error = _refused(capsys, *command, 32)
    assert error == f"coca: {tmp_path / 'store'} holds a store with recipe.size: 16, not 32; choose another folder\n"


def test_a_place_that_cannot_be_written_to_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (20, 20)).save(tmp_path / "photos" / "a.png")
    write_store(NoiseSource(4), tmp_path / "store")
    for out in (tmp_path / "file", tmp_path / "file" / "store", Path("/proc/store")):
        for command in (
            ["scenes", "tetrominoes", "--count", 5, "--out", out],
            ["import", "folder", tmp_path / "photos", "--out", out],
            ["data", "show", tmp_path / "store", "--out", out / "sheet.png"],
        ):
            error = _refused(capsys, *command)
            assert error.startswith(f"coca: cannot write to {out}: ")
            assert "not a folder that you may write to" in error


def test_the_systems_errors_have_no_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_store(NoiseSource(4), tmp_path / "store")
    (tmp_path / "sheet.png").mkdir()
    error = _refused(capsys, "data", "show", tmp_path / "store", "--out", tmp_path / "sheet.png")
    assert error == f"coca: {tmp_path / 'sheet.png'}: Is a directory\n"


def test_a_full_disk_is_foreseen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(1000, 900, 100))
    with pytest.raises(ValueError, match=r"needs about 4\.2 MB, but its disk has only 100 bytes free"):
        write_store(Tetrominoes(1000, seed=0), tmp_path / "store")
    assert not (tmp_path / "store").exists()


class _Interrupted(NoiseSource):
    def __getitem__(self, index: int) -> Sample:
        if index == self.count - 1:
            raise KeyboardInterrupt
        return super().__getitem__(index)


def test_ctrl_c_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cocanet.data.store_writer.SHARD_BYTES", 5 * 7 * 4 * 10)
    with pytest.raises(KeyboardInterrupt, match="keeps 20 of 25 samples; run the same command to continue"):
        write_store(_Interrupted(25), tmp_path / "store")
    write_store(NoiseSource(25), tmp_path / "store")
    Store(tmp_path / "store")


@pytest.mark.slow
def test_ctrl_c_with_workers_leaves_a_store_to_continue(tmp_path: Path) -> None:
    out = tmp_path / "store"
    small_shards = "from cocanet.data import store_writer; store_writer.SHARD_BYTES = 2**20"
    command = [sys.executable, "-c", f"{small_shards}; from cocanet.cli import main; main()"]
    command += ["scenes", "multi-dsprites", "--count", "40000", "--seed", "1", "--workers", "2", "--out", str(out)]
    run = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Tests that run in the background may have inherited that Ctrl-C is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 60
    while not list(out.glob("*.factors.npz")) and time.monotonic() < deadline:
        time.sleep(0.02)
    # A terminal sends the signal to every process of the group.
    os.killpg(run.pid, signal.SIGINT)
    _, error = run.communicate(timeout=30)
    assert run.returncode == 130
    assert error.count("\n") == 1
    assert "run the same command to continue" in error
    with pytest.raises(ValueError, match="is unfinished"):
        Store(out)


def test_objects_are_counted_by_what_shows(tmp_path: Path) -> None:
    source = NoiseSource(60, size=(9, 9))
    objects = count_objects(write_store(source, tmp_path / "store", shard_size=7))
    numbers, smallest = [], 81
    for i in range(60):
        labels, counts = np.unique(source[i].labels, return_counts=True)
        numbers.append(int((labels >= 2).sum()))
        smallest = min([smallest, *counts[labels >= 2].tolist()])
    np.testing.assert_array_equal(objects.images, np.bincount(numbers))
    assert objects.smallest == smallest


class _Some(NoiseSource):
    def __getitem__(self, index: int) -> Sample:
        sample = super().__getitem__(index)
        return sample._replace(labels=np.full_like(sample.labels, UNLABELLED)) if index == 1 else sample


def test_images_without_a_mask_are_counted_apart_and_drawn_blank(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = write_store(_Some(5, size=(64, 64)), tmp_path / "store")
    objects = count_objects(store)
    assert (objects.images.sum(), objects.unlabelled) == (4, 1)
    main(["data", "info", str(tmp_path / "store")])
    assert "unlabelled 1 of the images" in " ".join(capsys.readouterr().out.split())
    blank, drawn = (np.asarray(draw_sheet(store, count=1, first=first)) for first in (1, 0))
    assert len(np.unique(blank[60:150, 160:270].reshape(-1, 3), axis=0)) == 1
    assert len(np.unique(drawn[60:150, 160:270].reshape(-1, 3), axis=0)) > 1


class _Bare(NoiseSource):
    has_labels = False
    background_labels = 0


def test_stores_without_labels_are_shown_without_masks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_store(_Bare(4, size=(64, 64)), tmp_path / "bare")
    write_store(NoiseSource(4, size=(64, 64)), tmp_path / "full")
    main(["data", "info", str(tmp_path / "bare")])
    assert "labels none" in " ".join(capsys.readouterr().out.split())
    sizes = []
    for name in ("bare", "full"):
        main(["data", "show", str(tmp_path / name), "--out", str(tmp_path / "sheet.png"), "--count", "1"])
        with Image.open(tmp_path / "sheet.png") as picture:
            sizes.append(picture.width)
    assert sizes[1] > sizes[0] + 100


def test_mask_colours_differ() -> None:
    for background in (0, 1, 4):
        palette = mask_colours(background).astype(int)
        shown = palette[: background + 11]
        distance = np.abs(shown[:, None] - shown[None]).sum(axis=-1) + 1000 * np.eye(len(shown))
        assert distance.min() >= 40
        assert (np.ptp(palette[:background], axis=1) == 0).all()


def test_images_of_a_store_as_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = write_store(Tetrominoes(5, seed=0), tmp_path / "store")
    main(["data", "export", str(tmp_path / "store"), "--out", str(tmp_path / "files")])
    assert "5 images" in capsys.readouterr().out
    images, labels = store.gather(np.arange(5))
    for index in range(5):
        for kind, expected in (("images", images), ("masks", labels)):
            with Image.open(tmp_path / "files" / kind / f"{index:06d}.png") as picture:
                np.testing.assert_array_equal(np.asarray(picture), expected[index])
    with pytest.raises(SystemExit):
        main(["data", "export", str(tmp_path / "store"), "--out", str(tmp_path / "files")])
    assert "is not empty" in capsys.readouterr().err
