"""`coca segment`: what it says, and how it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from cocanet.cli import main, progress
from cocanet.data.store_writer import write_store
from tests.predict.models import weights_file
from tests.small_runs import Squares


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """A folder with weights and a few photos."""
    monkeypatch.chdir(tmp_path)
    weights_file(tmp_path / "w.safetensors")
    (tmp_path / "photos").mkdir()
    for number in range(3):
        Image.new("RGB", (20 + number, 20), (90, 60 * number, 9)).save(tmp_path / "photos" / f"{number}.png")
    return tmp_path


def exit_code(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(["segment", *arguments])
    return int(end.value.code or 0)


def test_help_says_what_is_expected(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert exit_code("--help") == 0
    said = capsys.readouterr().out
    assert said.splitlines()[0].endswith("WEIGHTS PATH…")
    for noise in ("STR [STR", "{None}", "None|", "(default: )", "...]"):
        assert noise not in said
    for flag in ("--level INT", "--dynamic ", "--fit {stretch,pad,crop}", "--components ", "--min-area", "--also {"):
        assert flag in said


def test_help_needs_no_torch():
    check = "import sys, cocanet.cli; sys.exit('torch' in sys.modules or 'scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


def test_flags_reach_the_settings(place, monkeypatch):
    seen = []
    monkeypatch.setattr("cocanet.cli.segment.Segment.run", lambda command: seen.append(command))
    main(["segment", "w", "a", "b", "--dynamic", "--slots", "5", "--min-area", "50", "--components", "--sheet", "3"])
    main(["segment", "w", "a", "--fit", "pad", "--level", "1", "--keep-background", "--out", "there"])
    first, second = seen
    assert first.paths == ("a", "b")
    chosen = first.settings
    assert (chosen.dynamic, chosen.slots, chosen.min_area, chosen.components) == (True, 5, 50, True)
    assert (first.output.out, first.output.sheet) == (Path("segments"), 3)
    assert (second.settings.fit, second.settings.level, second.settings.dynamic) == ("pad", 1, None)
    assert (second.output.out, second.output.keep_background) == (Path("there"), True)


def test_without_out_results_go_to_segments(place, capsys):
    assert exit_code("w.safetensors", "photos") == 0
    assert " in 3 images, " in capsys.readouterr().out
    assert sorted(path.name for path in (place / "segments" / "labels").iterdir()) == ["0.png", "1.png", "2.png"]
    assert exit_code("w.safetensors", "photos") == 2
    assert capsys.readouterr().err == (
        "coca: segments is not empty; give another folder with --out, or --overwrite to write over what is there\n"
    )
    assert exit_code("w.safetensors", "photos", "--overwrite") == 0


def test_a_store(place, capsys):
    write_store(Squares(4), place / "store")
    assert exit_code("w.safetensors", "store") == 0
    assert " in 4 images, " in capsys.readouterr().out
    assert (place / "segments" / "labels" / "000003.png").is_file()


def test_files_that_cannot_be_read_are_listed(place, capsys):
    (place / "photos" / "cut.png").write_bytes(b"")
    assert exit_code("w.safetensors", "photos") == 1
    said = capsys.readouterr()
    assert " in 3 images, " in said.out
    assert said.err == f"coca: 1 of 4 files could not be read:\n  {place}/photos/cut.png: the file is empty\n"


def test_what_is_no_image_leaves_nothing_behind(place, capsys):
    (place / "text.png").write_text("no picture")
    for _ in range(2):  # an earlier folder would be in the way
        assert exit_code("w.safetensors", "text.png") == 1
        said = capsys.readouterr()
        assert said.err.splitlines()[0] == "coca: 1 of 1 files could not be read, so nothing was written:"
        assert "objects" not in said.out
        assert not (place / "segments").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["w.safetensors"], "no images were given"),
        (["w.safetensors", "nothing"], "nothing is not there; expected an image, a folder, a store or a pattern"),
        (["nothing", "photos"], "there is no file or folder 'nothing'"),
        (["w.safetensors", "photos", "--level", "9"], "level must lie in 1 … 3"),
        (["w.safetensors", "photos", "--slots", "-1"], "slots must be at least 1; got -1"),
        (["w.safetensors", "photos", "--slots", "-1", "--dynamic"], "slots must be at least 1; got -1"),
        (["w.safetensors", "photos", "--out", "w.safetensors/x"], "cannot write to w.safetensors/x: "),
        (["w.safetensors", "photos", "--out", "/proc/nothing"], "cannot write /proc/nothing: "),
    ],
)
def test_a_mistake_ends_with_one_clear_line(place, capsys, arguments, message):
    assert exit_code(*arguments) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "Errno" not in said
    assert not (place / "segments").exists()


def test_stopped_before_any_image(place, capsys, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("cocanet.predict.load", stop)
    assert exit_code("w.safetensors", "photos") == 128 + signal.SIGINT
    assert capsys.readouterr().err == "coca: interrupted\n"


def test_flags_of_scale(place, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert exit_code("--help") == 0
    said = capsys.readouterr().out
    for flag in ("--workers INT", "--engine {processes,ray}", "--format {files,parquet}", "--part INT"):
        assert flag in said
    for arguments, message in (
        (["--workers", "0"], "workers must be at least 1; got 0"),
        (["--part", "0"], "a part needs at least one image; got 0"),
    ):
        assert exit_code("w.safetensors", "photos", *arguments) == 2
        assert message in capsys.readouterr().err


def test_a_stopped_run_goes_on(place, capsys, monkeypatch):
    """Each result is waited for before the next image: else it depends on the threads which are kept."""
    from cocanet.predict import batches
    from cocanet.predict.segmenter import Segmenter

    predict, calls = Segmenter.predict, []
    monkeypatch.setattr(batches, "_too_much", lambda waiting: True)

    def stop(*arguments):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return predict(*arguments)

    monkeypatch.setattr(Segmenter, "predict", stop)
    assert exit_code("w.safetensors", "photos", "--batch", "1") == 128 + signal.SIGINT
    said = capsys.readouterr().err
    assert said == "coca: stopped, segments keeps 1 of 3 images; run the same command to resume\n"
    assert exit_code("w.safetensors", "photos", "--batch", "1") == 0
    assert len(calls) == 3 + 2
    said = capsys.readouterr().out
    assert "resumed after 1 image of an earlier run" in said
    assert " in 3 images, " in said


def test_a_table(place, capsys):
    pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    (place / "photos" / "cut.png").write_bytes(b"")
    assert exit_code("w.safetensors", "photos", "--format", "parquet", "--out", "table") == 1
    said = capsys.readouterr()
    assert " in 3 images, " in said.out
    assert "cut.png: the file is empty" in said.err
    assert set(pq.read_table(place / "table")["file_name"].to_pylist()) == {"0.png", "1.png", "2.png", "cut.png"}


def test_a_line_now_and_then_where_there_is_no_terminal(place, capsys, monkeypatch):
    monkeypatch.setattr(progress, "LINE_EVERY", 0)
    assert exit_code("w.safetensors", "photos") == 0
    assert "segmenting: 3 of 3\n" in capsys.readouterr().out
