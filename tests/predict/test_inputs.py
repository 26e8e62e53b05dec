"""Which files are found, and that no two results get the same name."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cocanet.data.store_writer import write_store
from cocanet.predict.inputs import KINDS, find_images, output_names
from tests.small_runs import Squares


def touch(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


def found(root: Path, *given: str | Path) -> list[str]:
    inputs = find_images(list(given), root / "out")
    return [str(path.relative_to(root)) for path in inputs.files]


def test_folders_files_and_patterns(tmp_path, monkeypatch):
    touch(tmp_path, "b/img10.png", "b/img2.JPG", "b/deep/x.webp", "b/notes.txt", "b/.hidden.png", "b/.git/a.png")
    touch(tmp_path, "c/one.tif", "c/[x].png", "strange.dat")
    assert found(tmp_path, tmp_path / "b") == ["b/deep/x.webp", "b/img2.JPG", "b/img10.png"]
    assert found(tmp_path, tmp_path / "strange.dat", tmp_path / "c") == ["strange.dat", "c/[x].png", "c/one.tif"]
    assert found(tmp_path, f"{tmp_path}/b/*.png", f"{tmp_path}/b/img10.png") == ["b/img10.png"]
    assert found(tmp_path, f"{tmp_path}/**/*.tif") == ["c/one.tif"]
    assert found(tmp_path, tmp_path / "c" / "[x].png") == ["c/[x].png"]
    monkeypatch.chdir(tmp_path / "b")
    assert found(tmp_path, ".", "../b/img2.JPG") == ["b/deep/x.webp", "b/img2.JPG", "b/img10.png"]
    assert found(tmp_path, "*") == ["b/deep/x.webp", "b/img2.JPG", "b/img10.png", "b/notes.txt"]


def test_names_are_relative_to_the_folder_that_holds_all(tmp_path, monkeypatch):
    touch(tmp_path, "a/1.png", "a/x/1.png", "b/1.png")
    monkeypatch.chdir(tmp_path)
    for paths, root in (
        (["a"], "a"),
        (["a", "b"], "."),
        (["a/1.png"], "a"),
        (["a/1.png", "a/x"], "a"),
        (["a/**/*.png"], "a"),
        (["a/x/*.png", "b/1.png"], "."),
    ):
        inputs = find_images(paths, tmp_path / "out")
        assert inputs.root == (tmp_path / root).absolute()
        assert all((inputs.root / inputs.relative(path)) == path for path in inputs.files)


def test_stores(tmp_path):
    for name in ("all/train", "all/test"):
        write_store(Squares(3), tmp_path / name)
    (tmp_path / "all" / "train" / "sheet.png").touch()
    assert found(tmp_path, tmp_path / "all" / "train") == [f"all/train/00000{number}.png" for number in range(3)]
    touch(tmp_path, "all/photo.png")
    assert len(found(tmp_path, tmp_path / "all")) == len(found(tmp_path, f"{tmp_path}/al*")) == 7
    inputs = find_images([tmp_path / "all"], tmp_path / "out")
    np.testing.assert_array_equal(inputs.read(tmp_path / "all" / "test" / "000002.png"), Squares(3)[2].image)
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "meta.json").write_text('{"by": "another program"}')
    touch(tmp_path, "photos/a.png")
    assert found(tmp_path, tmp_path / "photos") == ["photos/a.png"]


def test_mistakes(tmp_path):
    (tmp_path / "empty").mkdir()
    for paths, message in (
        ([], "no images were given"),
        ([tmp_path / "a.png"], r"a\.png is not there; expected an image, a folder, a store or a pattern"),
        ([f"{tmp_path}/*.png"], "no file matches"),
        ([tmp_path / "empty"], "no images in .*empty"),
    ):
        with pytest.raises(ValueError, match=message):
            find_images(paths, tmp_path / "out")


def test_what_an_earlier_run_wrote_is_no_input(tmp_path):
    touch(tmp_path, "a.png", "sheet.png", "labels/a.png", "overlays/a.jpg", "mine/labels/b.png")
    inputs = find_images([tmp_path], tmp_path)
    assert [str(inputs.relative(path)) for path in inputs.files] == ["a.png", "mine/labels/b.png"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read_is_a_failure(tmp_path):
    touch(tmp_path, "a.png", "closed/b.png")
    (tmp_path / "closed").chmod(0)
    inputs = find_images([tmp_path], tmp_path / "out")
    (tmp_path / "closed").chmod(0o700)
    assert [failure.path.name for failure in inputs.failures] == ["closed"]
    assert [path.name for path in inputs.files] == ["a.png"]


def test_links_are_read_but_not_followed_round_in_circles(tmp_path):
    touch(tmp_path, "in/real.png", "far/away.png")
    (tmp_path / "in" / "link.png").symlink_to(tmp_path / "far" / "away.png")
    (tmp_path / "in" / "round").symlink_to(tmp_path / "in")
    assert found(tmp_path, tmp_path / "in") == ["in/link.png", "in/real.png"]


def test_names_keep_the_folders_and_tell_endings_apart():
    paths = ["x/a.png", "x/a.jpg", "x/A.gif", "y/a.png", "x/b.c.png", "plain", "x/a.jpg.png"]
    assert output_names(map(Path, paths)) == [
        "x/a", "x/a.jpg", "x/A.gif", "y/a", "x/b.c", "plain", "x/a.jpg.png",
    ]  # fmt: skip
    assert output_names([Path("x.png"), Path("x.png/y.jpg")]) == ["x.png", "x.png/y"]


PARTS = st.sampled_from(["a", "A", "a.png", "a.jpg", "a.png-2", "a.npz", "b"])


@given(st.lists(st.lists(PARTS, min_size=1, max_size=3).map(lambda parts: Path(*parts)), unique=True))
def test_names_never_collide(paths):
    folders = {folder for path in paths for folder in path.parents}
    paths = [path for path in paths if path not in folders]
    names = output_names(paths)
    for ending in KINDS.values():
        written = [f"{name}{ending}".lower() for name in names]
        above = {str(folder).lower() for name in written for folder in Path(name).parents}
        assert len(set(written)) == len(paths)
        assert above.isdisjoint(written)
    assert [Path(name).parent for name in names] == [path.parent for path in paths]
