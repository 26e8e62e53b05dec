"""`coca train PRESET`: its flags, runs that go on, and mistakes."""

from __future__ import annotations

import json
import shutil
from importlib.metadata import version

import pytest

from cocanet import presets
from cocanet.cli import main
from cocanet.cli.train import parse
from cocanet.io.run_folder import RunFolder
from tests.train.runs import TINY, losses, noise_store


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return noise_store(tmp_path_factory.mktemp("noise") / "data", size=(32, 32))


@pytest.fixture(scope="module")
def quick(data):
    """Flags of a run that takes a second."""
    return ["--data", str(data), "--steps", "2", "--batch-size", "4", "--log-every", "1", *TINY]


@pytest.fixture(scope="module")
def trained(tmp_path_factory, quick):
    out = tmp_path_factory.mktemp("trained") / "run"
    main(["train", "tetrominoes-fast", *quick, "--out", str(out)])
    return out


def refused(capsys, arguments: list[str]) -> str:
    """The one line with which a command ends, with exit code 2."""
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("coca: ")
    assert error.count("\n") == 1
    return error


def test_every_field_of_a_preset_is_a_flag():
    flags = "--model.levels.1.clusters 6 --model.decoder.octaves 5 --stages.0.optimiser.learning-rate 1 --seed 9"
    chosen = parse(["tetrominoes-fast", *flags.split(), "--scenes.background-labels", "2", "--clip-norm", "None"])
    settings = chosen.settings(chosen.config.seed)
    assert settings.preset.model.slots == 6
    assert settings.preset.model.decoder.octaves == 5
    assert settings.preset.train.stages[0].optimiser.learning_rate == 1
    assert settings.preset.train.clip_norm is None
    assert settings.preset.data.background_labels == 2
    assert settings.run.seed == 9


def test_each_stage_has_its_flags():
    stages = parse(["clevr6-fast", "--stages.1.schedule.warmup", "0.5"]).train.stages
    assert len(stages) > 2
    assert [stage.schedule.warmup for stage in stages] == [0.03, 0.5, *[0.03] * (len(stages) - 2)]


def test_a_preset_without_flags_is_the_preset():
    for name in ("objects-room", "clevr6-ras-dyna", "clevrtex-fast", "inv-sa-clevr6", "birds"):
        chosen = parse([name])
        assert chosen.settings(0).preset == presets.find(name)
        assert chosen.folder(0).parts == ("runs", name, "seed-0")


def test_the_preset_is_the_first_word_and_never_guessed(capsys):
    for arguments in (
        ["--steps", "10", "clevr6"],
        ["--out", "tetrominoes", "clevr6"],
        ["--out", "auto", "tetrominoes-fast"],
        ["--resume"],
        [],
    ):
        assert "which preset? It comes first, `coca train PRESET …`" in refused(capsys, ["train", *arguments])


def test_help_shows_what_people_set_first(capsys):
    with pytest.raises(SystemExit):
        main(["train", "tetrominoes", "--help"])
    printed = capsys.readouterr().out
    assert "{None}" not in printed
    lines = printed.splitlines()
    rows = {
        flag: next(number for number, line in enumerate(lines) if flag in line)
        for flag in ("--out", "--minutes", "--steps", "--stages.0.optimiser.learning-rate", "--model.dim")
    }
    assert max(rows.values()) == rows["--model.dim"]
    assert lines[0].startswith("usage: coca train tetrominoes")


def test_version(capsys):
    main(["--version"])
    assert capsys.readouterr().out == f"coca {version('cocanet')}\n"


def test_resume_takes_the_settings_of_the_run(tmp_path, quick, capsys):
    out = ["--out", str(tmp_path / "run")]
    main(["train", "tetrominoes-fast", *quick, *out, "--clip-norm", "0.5"])
    assert "coca evaluate" in capsys.readouterr().out
    before = RunFolder(tmp_path / "run").read_settings()
    assert parse(["tetrominoes-fast", *out, "--resume"]).settings(0) == before
    main(["train", "--resume", *out, "--steps", "4"])
    after = RunFolder(tmp_path / "run").read_settings()
    assert (after.preset.name, after.preset.train.clip_norm) == ("tetrominoes-fast", 0.5)
    assert [step for step, _ in losses(tmp_path / "run")] == [1, 2, 3, 4]


def test_resume_of_nothing_is_an_error_and_leaves_nothing(tmp_path, quick, capsys):
    for preset in (["tetrominoes-fast", *quick], ["auto", *quick[:2]]):
        error = refused(capsys, ["train", *preset, "--out", str(tmp_path / "run"), "--resume"])
        assert f"there is no run in {tmp_path / 'run'} to resume; leave out --resume to start one" in error
    assert not (tmp_path / "run").exists()


def test_a_folder_of_runs_is_not_a_run_but_names_them(trained, capsys):
    error = refused(capsys, ["evaluate", str(trained.parent)])
    assert f"it has no last.safetensors; there are runs in it: {trained.name}" in error


def test_seeds_run_one_after_the_other(tmp_path, quick):
    main(["train", "tetrominoes-fast", *quick, "--out", str(tmp_path), "--seeds", "2", "--seed", "4"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["seed-4", "seed-5"]
    assert losses(tmp_path / "seed-4")[0] != losses(tmp_path / "seed-5")[0]


def test_scenes_are_generated_without_data_and_tensorboard_has_the_curves(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("cocanet.data.splits.VALIDATION_IMAGES", 8)
    # A folder called like a preset is a folder.
    flags = ["--steps", "1", "--batch-size", "4", *TINY, "--out", "tetrominoes", "--tensorboard"]
    main(["train", "tetrominoes-fast", *flags])
    assert len(losses(tmp_path / "tetrominoes")) == 1
    assert list((tmp_path / "tetrominoes").glob("events.out.tfevents.*"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "tetromino"], "unknown preset 'tetromino': did you mean tetrominoes?"),
        (["train", "atuo"], "unknown preset 'atuo': did you mean auto?"),
        (["sgement", "x"], "unknown command 'sgement': did you mean segment?"),
        (["data", "inf", "x"], "unknown command 'data inf': did you mean data info?"),
        (["figure", "grd", "tetrominoes"], "unknown figure 'grd': did you mean grid?"),
        (["figure"], "coca figure needs {grid,"),
        (["import", "foldr", "x", "--out", "y"], "unknown format 'foldr': did you mean folder?"),
        (["segment", "w", "x", "--mask", "decoder"], "unknown flag '--mask': did you mean --masks?"),
        (["segment", "w", "x", "--engine", "rya"], "unknown value of --engine 'rya': did you mean ray?"),
        (["export", "tetrominoes", "--out", "x.tflite"], "coca: a file for onnx ends in .onnx; got x.tflite"),
        (["export", "tetrominoes", "--format", "onx"], "unknown value of --format 'onx': did you mean onnx?"),
        (["train", "clevr6-rsa"], "did you mean clevr6-ras?"),
        (["train", "tetrominoes", "--data", "/nowhere"], "the data folder /nowhere does not exist"),
        (["train", "tetrominoes", "--seeds", "0"], "seeds must be at least 1; got 0"),
        (["train", "tetrominoes", "--seeds", "2", "--devices", "2"], "start every --seed itself"),
        (["evaluate", "/nowhere"], "there is no file or folder '/nowhere'"),
        (["report", "/nowhere"], "/nowhere"),
    ],
)
def test_mistakes(capsys, monkeypatch, tmp_path, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert message in refused(capsys, arguments)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--model.levels.0.window", "5", "5"], "a grid of 32×32 cells does not divide into windows of 5×5"),
        (["--batch-size", "0"], "batch_size must be positive; got 0"),
        (["--stages.0.share", "0.5"], "the shares of a run's stages must sum to 1; got 0.5"),
        (["--minutes", "-3"], "minutes must be positive; got -3"),
        (["--steps", "many"], "--steps expects a whole number; got 'many'"),
        (["--minutes", "few"], "--minutes expects a number; got 'few'"),
        (["--batch-siz", "1"], "unknown flag '--batch-siz': did you mean --batch-size?"),
        (["--accelerator", "gpu"], "unknown value of --accelerator 'gpu': "),
    ],
)
def test_values_that_make_no_run(capsys, flags, message):
    assert message in refused(capsys, ["train", "tetrominoes", *flags])


def test_images_of_the_wrong_size(capsys, tmp_path, data):
    error = refused(capsys, ["train", "multi-dsprites", "--data", str(data), "--out", str(tmp_path / "run")])
    assert "holds images of 32×32 pixels; this model takes 64×64" in error


def test_data_that_is_not_there_is_said_before_a_run_in_the_way(capsys, trained):
    for preset in ("tetrominoes-fast", "auto"):
        error = refused(capsys, ["train", preset, "--data", "nofolder", "--out", str(trained)])
        assert "the data folder nofolder does not exist" in error


def test_a_run_in_the_way(capsys, quick, trained):
    assert "add --resume" in refused(capsys, ["train", "tetrominoes-fast", *quick, "--out", str(trained)])


def test_resume_with_another_architecture(capsys, trained):
    flags = ["--out", str(trained), "--resume", "--model.dim", "24"]
    error = refused(capsys, ["train", "tetrominoes-fast", *flags])
    assert "cannot be resumed with another model: it has model.dim: 16, not 24" in error
    assert "is a run of tetrominoes-fast, not of clevr6" in refused(capsys, ["train", "clevr6", *flags[:3]])


def test_more_slots_than_there_are_nodes(capsys, trained):
    assert "cannot make 900 clusters" in refused(capsys, ["evaluate", str(trained), "--slots", "900"])


def test_a_truncated_checkpoint_and_a_file_of_another_program(capsys, tmp_path, trained):
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    last = run / "last.safetensors"
    last.write_bytes(last.read_bytes()[:5000])
    expected = "last.safetensors is truncated, or not a safetensors file"
    assert expected in refused(capsys, ["evaluate", str(run)])
    assert expected in refused(capsys, ["train", "tetrominoes-fast", "--out", str(run), "--resume", "--steps", "9"])
    (tmp_path / "model.bin").write_bytes(b"GGUF" + bytes(100))
    assert "not a safetensors file" in refused(capsys, ["evaluate", str(tmp_path / "model.bin")])


def test_evaluate_and_report_a_run(tmp_path, trained):
    main(["evaluate", str(trained), "--json", str(tmp_path / "scores.json"), "--out", str(tmp_path / "files")])
    result = json.loads((tmp_path / "scores.json").read_text())
    assert result == json.loads((tmp_path / "files" / "evaluation.json").read_text())
    main(["report", str(trained), "--out", str(tmp_path / "report")])
    assert {path.suffix for path in (tmp_path / "report").iterdir()} == {".md", ".csv", ".tex", ".png"}
