"""`coca train auto`: from a folder of pictures to a run."""

from __future__ import annotations

import re

import numpy as np
import pytest
from PIL import Image

from cocanet.cli import main
from cocanet.cli.train import parse
from cocanet.config import Stage, TrainConfig
from cocanet.io.run_folder import RunFolder
from cocanet.presets.auto import choose
from cocanet.train.estimate import PICTURE_SECONDS, RunCost, estimate_run
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


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("COCANET_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def quick_estimate(monkeypatch):
    monkeypatch.setattr("cocanet.train.estimate.SHORT", 1)
    monkeypatch.setattr(
        "cocanet.train.estimate.estimate_run",
        lambda preset, validated: RunCost(preset.train, (2.0,) * len(preset.train.stages), 1.0, 10**9),
    )


def refused(capsys, *flags: str) -> str:
    with pytest.raises(SystemExit) as end:
        main(["train", "auto", *flags])
    assert end.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


def test_a_folder_of_pictures(tmp_path, pictures, capsys):
    out = tmp_path / "run"
    flags = ["--data", str(pictures), "--slots", "3", "--size", "32", "--out", str(out), *QUICK]
    main(["train", "auto", *flags])
    printed = " ".join(capsys.readouterr().out.split())
    assert "32×32 pixels" in printed
    assert "3 slots (--slots)" in printed
    assert "photographs are stretched to it (--fit), nothing is cropped" in printed
    assert "1 step takes 22 s" in printed
    assert re.search("the model (learned|did not learn) to reconstruct: ", printed)
    preset = RunFolder(out).read_settings().preset
    assert (preset.model.slots, preset.model.image_size) == (3, (32, 32))
    assert len(losses(out)) == 1
    # The run knows its data; naming them again is no mistake.
    main(["train", "auto", "--out", str(out), "--resume", "--steps", "2"])
    main(["train", "auto", *flags, "--steps", "3", "--resume"])
    assert len(losses(out)) == 3
    main(["evaluate", str(out)])
    assert "mse" in capsys.readouterr().out.lower()
    assert "has 3 slots and cannot be resumed with 4" in refused(capsys, *flags, "--slots", "4", "--resume")
    Image.new("RGB", (50, 50)).save(pictures / "new.png")
    assert "cannot be resumed with another data" in refused(capsys, *flags, "--resume")


def test_larger_images_have_more_levels_and_stages_with_flags_of_their_own(pictures, cache, tmp_path):
    flags = ["--data", str(pictures), "--size", "128", "--out", str(tmp_path / "run")]
    chosen = parse(["auto", *flags, "--model.levels.2.depth", "1", "--stages.1.schedule.warmup", "0.2", *QUICK])
    assert chosen.model.levels[2].depth == 1
    assert chosen.train.stages[1].schedule.warmup == 0.2


def test_damaged_pictures_are_named_and_left_out(tmp_path, pictures, capsys, cache):
    (pictures / "bad.png").write_bytes(b"no picture")
    (pictures / "cut.png").write_bytes((pictures / "0.png").read_bytes()[:200])
    command = ["train", "auto", "--data", str(pictures), "--slots", "3", "--size", "32", *QUICK]
    for out in ("first", "from the cache"):
        main([*command, "--out", str(tmp_path / out)])
        (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("left out")]
        assert line.startswith("left out 2 damaged images: ")
        assert str(pictures / "bad.png") in line
        assert str(pictures / "cut.png") in line


def test_help_fits_a_screen_and_all_flags_are_one_word_away(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = {}
    for flag in ("--help", "--help-all"):
        with pytest.raises(SystemExit):
            main(["train", "auto", flag])
        shown[flag] = capsys.readouterr().out
    assert len(shown["--help"].splitlines()) <= 50
    assert "--help-all" in shown["--help"]
    for flag in ("--data", "--slots", "--size", "--fit", "--minutes", "--out", "--resume", "--seed", "--accelerator"):
        assert f"{flag} " in shown["--help"]
        assert f"{flag} " in shown["--help-all"]
    assert "--stages.0.optimiser.learning-rate " in shown["--help-all"]


def test_mistakes_are_found_before_pictures_are_imported(tmp_path, monkeypatch, capsys, pictures, cache):
    monkeypatch.chdir(pictures)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").touch()
    for flags, message in (
        (["--slots", "3"], "which images? `coca train auto --data DIR`"),
        (["--data", "0.png"], "0.png is not a folder; expected a folder of images or a store"),
        (["--data", "/nowhere"], "the data folder /nowhere does not exist"),
        (["--data", ".", "--slots", "1"], "slots must be 2 to 64; got 1"),
        (["--data", ".", "--out", str(tmp_path / "run")], "is neither empty nor a run folder"),
        (["--resume", "--out", str(tmp_path / "none")], "there is no run in"),
    ):
        assert message in refused(capsys, *flags)
    assert not cache.exists()


def test_the_cost_of_a_step_is_measured():
    cost = estimate_run(choose((32, 32), 3).preset, validated=4)
    assert 0 < cost.step_seconds[0] < 60
    assert cost.validation_seconds > PICTURE_SECONDS
    assert cost.bytes > 10**7


def staged(seconds: tuple[float, ...], steps: int = 1000) -> RunCost:
    stages = (Stage(share=0.5), Stage(share=0.25), Stage(share=0.25))
    return RunCost(TrainConfig(steps=steps, stages=stages), seconds, 2.0, 10**9)


def test_one_estimate_from_the_first_step_to_the_last():
    """A run whose later stages take ten times as long per step, as measured, or evenly 30 % slower."""
    cost = staged((0.1, 0.3, 1.0))
    whole = 0.1 * 500 + 0.3 * 250 + 1.0 * 250 + 20 * 2.0
    assert cost.seconds == pytest.approx(whole)
    for slower in (1.0, 1.3):
        spent = 0.0
        for step in range(1, 1001):
            spent += slower * (0.04 + (0.1 if step <= 500 else 0.3 if step <= 750 else 1.0))
            predicted = spent + cost.seconds_left(step / 1000, spent)
            assert predicted == pytest.approx(slower * whole, rel=0.2 if slower == 1.0 or step > 50 else 0.31)
    assert cost.seconds_left(0.0, 0.0) == pytest.approx(whole)
    assert cost.seconds_left(1.0, 500.0) == 0


def test_minutes_are_shared_among_stages_by_time():
    assert staged((0.1, 0.3, 1.0)).steps_in(10.0) == round(600 * 0.9 * (0.5 / 0.1 + 0.25 / 0.3 + 0.25 / 1.0))
    assert "hours: --minutes sets a limit, Ctrl-C stops and saves" in staged((1.0, 1.0, 1.0), 90_000).text(None)


def flat_pictures(colours: int) -> list[np.ndarray]:
    """Stripes of clear colours."""
    draw = np.random.default_rng(1)
    palette = draw.permutation(np.array([[r, g, b] for r in (0, 255) for g in (0, 255) for b in (0, 255)]))
    return [np.repeat(draw.permutation(palette[:colours]), 32 // colours, 0)[:, None].repeat(32, 1) for _ in range(12)]


@pytest.mark.parametrize("colours", [4, 8])
def test_slots_are_chosen_by_the_colours_of_the_images(tmp_path, colours):
    folder = tmp_path / "stripes"
    folder.mkdir()
    for index, picture in enumerate(flat_pictures(colours)):
        Image.fromarray(picture.astype(np.uint8)).save(folder / f"{index}.png")
    chosen = parse(["auto", "--data", str(folder), "--size", "32", "--out", str(tmp_path / "run")])
    assert colours - 2 <= chosen.model.slots <= colours


def test_stores_of_any_size_are_resized(tmp_path, capsys):
    store = noise_store(tmp_path / "store", count=12, size=(37, 50), labelled=False)
    main(["train", "auto", "--data", str(store), "--slots", "4", "--out", str(tmp_path / "run"), *QUICK])
    assert "the nearest to 37×50" in " ".join(capsys.readouterr().out.split())
    settings = RunFolder(tmp_path / "run").read_settings()
    assert settings.preset.model.image_size == (32, 48)
    assert settings.preset.data.resize


def test_a_misspelt_flag_is_found_before_the_import(pictures, cache, capsys):
    error = refused(capsys, "--data", str(pictures), "--size", "32", "--slots", "3", "--model.dimm", "16")
    assert "unknown flag '--model.dimm': did you mean --model.dim?" in error
    assert "`coca train auto --help`" in error
    assert not cache.exists()
