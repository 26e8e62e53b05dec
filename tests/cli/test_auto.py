"""`coca train auto`: from a folder of pictures to a run."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from cocanet.cli import main
from cocanet.cli.auto import tell
from cocanet.presets.auto import choose
from cocanet.runs.folder import RunFolder
from cocanet.train.estimate import StepCost
from tests.train.runs import losses, noise_store

QUICK = ["--steps", "1", "--batch-size", "4", "--model.dim", "16", "--accelerator", "cpu"]


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "holiday"
    (folder / "day 2").mkdir(parents=True)
    draw = np.random.default_rng(0)
    for index in range(12):
        noise = draw.integers(0, 256, (50, 70, 3), dtype=np.uint8)
        Image.fromarray(noise).save(folder / ("day 2" if index % 2 else ".") / f"{index}.png")
    return folder


def test_a_folder_of_pictures(tmp_path, pictures, capsys):
    out = tmp_path / "run"
    main(["train", "auto", "--data", str(pictures), "--slots", "3", "--size", "32", "--out", str(out), *QUICK])
    printed = " ".join(capsys.readouterr().out.split())
    assert "32×32 pixels: the images' own size" in printed
    assert "3 slots (--slots)" in printed
    assert "a step of 4 images takes about" in printed
    settings = RunFolder(out).read_settings()
    assert settings.preset.model.slots == 3
    assert settings.preset.model.image_size == (32, 32)
    assert len(losses(out)) == 1
    main(["train", "auto", "--out", str(out), "--resume", "--steps", "2"])
    assert len(losses(out)) == 2
    main(["evaluate", str(out)])
    assert "mse" in capsys.readouterr().out.lower()


def test_photographs_by_tokens(tmp_path, pictures, capsys):
    out = tmp_path / "run"
    small = ["--model.decoder.dim", "16", "--model.decoder.vocabulary", "9", "--model.backbone.channels", "8"]
    command = ["train", "auto", "--data", str(pictures), "--slots", "2", "--size", "32", "--decoder", "tokens"]
    main([*command, "--out", str(out), *QUICK, *small, "--steps", "2"])
    printed = " ".join(capsys.readouterr().out.split())
    assert "8×8 tokens of 128; the encoder learns to find one thing in the middle of each photograph" in printed
    assert "a step of 4 images takes about" in printed
    preset = RunFolder(out).read_settings().preset
    assert preset.by_tokens
    assert preset.model.decoder.vocabulary == 9
    assert preset.train.figure == 1
    main(["train", "auto", "--out", str(out), "--resume", "--steps", "3"])
    assert len(losses(out)) == 2


def test_damaged_pictures_are_named_and_left_out(tmp_path, pictures, capsys, monkeypatch):
    monkeypatch.setenv("COCANET_CACHE", str(tmp_path / "cache"))
    (pictures / "bad.png").write_bytes(b"no picture")
    (pictures / "cut.png").write_bytes((pictures / "0.png").read_bytes()[:200])
    command = ["train", "auto", "--data", str(pictures), "--slots", "3", "--size", "32", *QUICK]
    for out in ("first", "from the cache"):
        main([*command, "--out", str(tmp_path / out)])
        (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("left out")]
        assert line.startswith("left out 2 damaged images: ")
        assert str(pictures / "bad.png") in line
        assert str(pictures / "cut.png") in line
        assert len(losses(tmp_path / out)) == 1


def test_the_same_command_resumes(tmp_path, pictures, capsys):
    out = tmp_path / "run"
    command = ["train", "auto", "--data", str(pictures), "--slots", "3", "--size", "32", "--out", str(out), *QUICK]
    main(command)
    main([*command, "--steps", "2", "--resume"])
    assert len(losses(out)) == 2
    with pytest.raises(SystemExit):
        main([*command, "--slots", "4", "--resume"])
    assert "has 3 slots and cannot be resumed with 4" in capsys.readouterr().err
    Image.new("RGB", (50, 50)).save(pictures / "new.png")
    with pytest.raises(SystemExit):
        main([*command, "--resume"])
    assert "cannot be resumed with another data" in capsys.readouterr().err


def test_help_names_what_auto_needs(capsys):
    with pytest.raises(SystemExit):
        main(["train", "auto", "--help"])
    printed = capsys.readouterr().out
    for flag in ("--data", "--slots", "--size", "--minutes", "--learning-rate"):
        assert f"{flag} " in printed


def test_slots_are_checked_before_pictures_are_imported(tmp_path, pictures, capsys, monkeypatch):
    monkeypatch.setenv("COCANET_CACHE", str(tmp_path / "cache"))
    with pytest.raises(SystemExit):
        main(["train", "auto", "--data", str(pictures), "--slots", "1"])
    assert capsys.readouterr().err == "coca: slots must be 2 to 64; got 1\n"
    assert not (tmp_path / "cache").exists()


def test_a_run_in_the_way_is_known_before_anything_is_measured(tmp_path, pictures, capsys, monkeypatch):
    monkeypatch.setenv("COCANET_CACHE", str(tmp_path / "cache"))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").touch()
    with pytest.raises(SystemExit):
        main(["train", "auto", "--data", str(pictures), "--out", str(tmp_path / "run")])
    assert "is neither empty nor a run folder" in capsys.readouterr().err
    assert not (tmp_path / "cache").exists()


def test_resuming_nothing_says_so(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["train", "auto", "--resume", "--out", str(tmp_path / "none")])
    error = capsys.readouterr().err
    assert "there is no run in" in error
    assert error.count("\n") == 1


def test_the_promised_steps_leave_time_for_validation(monkeypatch, capsys):
    monkeypatch.setattr("cocanet.train.estimate.estimate_step", lambda preset: StepCost(2.0, 10**9))
    tell(choose((64, 64), 5), minutes=10.0)
    assert "room for about 270 steps" in capsys.readouterr().out
    tell(choose((64, 64), 5))
    assert "hours: --minutes sets a limit, Ctrl-C stops and saves" in capsys.readouterr().out


def test_stores_of_any_size_are_resized(tmp_path, capsys):
    store = noise_store(tmp_path / "store", count=12, size=(37, 50), labelled=False)
    main(["train", "auto", "--data", str(store), "--slots", "4", "--out", str(tmp_path / "run"), *QUICK])
    assert "the nearest to 37×50" in " ".join(capsys.readouterr().out.split())
    settings = RunFolder(tmp_path / "run").read_settings()
    assert settings.preset.model.image_size == (32, 48)
    assert settings.preset.data.resize


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--slots", "3"], "which images? `coca train auto --data DIR`"),
        (["--data", "0.png"], "0.png is not a folder; expected a folder of images or a store"),
        (["--data", "/nowhere"], "the data folder /nowhere does not exist"),
        (["--data", ".", "--slots", "1"], "slots must be 2 to 64; got 1"),
    ],
)
def test_mistakes(monkeypatch, capsys, pictures, flags, message):
    monkeypatch.chdir(pictures)
    with pytest.raises(SystemExit) as end:
        main(["train", "auto", *flags])
    assert end.value.code == 2
    assert message in capsys.readouterr().err
