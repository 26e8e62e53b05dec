"""`coca train` as a newcomer meets it."""

from __future__ import annotations

import json
import shutil
from importlib.metadata import version

import pytest

from cocanet import presets
from cocanet.cli import main
from cocanet.cli.train import parse
from cocanet.runs.folder import RunFolder
from tests.train.runs import TINY, losses, noise_store


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return noise_store(tmp_path_factory.mktemp("noise") / "data", size=(32, 32))


@pytest.fixture
def quick(data):
    """Flags of a run that takes a second."""
    return ["--data", str(data), "--steps", "2", "--batch-size", "4", "--log-every", "1", *TINY]


@pytest.fixture(scope="module")
def trained(tmp_path_factory, data):
    out = tmp_path_factory.mktemp("trained") / "run"
    main(["train", "tetrominoes", "--data", str(data), "--steps", "2", "--batch-size", "4", *TINY, "--out", str(out)])
    return out


def refused(capsys, arguments: list[str]) -> str:
    """The one line with which a command ends, with exit code 2 and no trace of Python."""
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("coca: ")
    assert error.count("\n") == 1
    assert "Traceback" not in error
    return error


def test_every_field_of_a_preset_is_a_flag():
    flags = ["--model.levels.1.clusters", "6", "--model.decoder.octaves", "4", "--learning-rate", "1e-3"]
    chosen = parse(["tetrominoes", *flags, "--clip-norm", "1", "--scenes.background-labels", "2", "--seed", "9"])
    settings = chosen.settings(chosen.run.seed)
    assert settings.preset.model.slots == 6
    assert settings.preset.model.decoder.octaves == 4
    assert (settings.preset.train.learning_rate, settings.preset.train.clip_norm) == (1e-3, 1.0)
    assert settings.preset.data.background_labels == 2
    assert settings.run.seed == 9


def test_help_shows_what_a_flag_takes_and_none_is_still_an_answer(capsys):
    with pytest.raises(SystemExit):
        parse(["birds-cpu", "--help"])
    assert "{None}" not in capsys.readouterr().out
    assert parse(["birds-cpu"]).train.clip_norm == 1
    assert parse(["birds-cpu", "--clip-norm", "None"]).train.clip_norm is None


@pytest.mark.parametrize("name", [*presets.PRESETS, "tetrominoes-ras", "clevr6-dyna", "clevr6-ras-dyna"])
def test_a_preset_without_flags_is_the_preset(name):
    chosen = parse([name])
    assert chosen.settings(0).preset == presets.find(name)
    assert chosen.folder(0).parts == ("runs", name, "seed-0")


def test_fewer_steps_keep_the_course_unless_it_is_given():
    course = parse(["tetrominoes", "--steps", "5000"]).train
    assert (course.warmup_steps, course.half_life) == (100, 1000)
    course = parse(["tetrominoes", "--steps", "5000", "--warmup-steps", "7"]).train
    assert (course.warmup_steps, course.half_life) == (7, 1000)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--steps", "10", "clevr6"],
        ["--out", "tetrominoes", "clevr6"],
        ["--out", "auto", "tetrominoes-cpu"],
        ["--steps", "1"],
        ["--resume"],
    ],
)
def test_the_preset_is_the_first_word_and_never_guessed(capsys, arguments):
    assert "which preset? It comes first, `coca train PRESET …`" in refused(capsys, ["train", *arguments])


def test_a_run_that_goes_on_knows_its_preset(tmp_path, quick):
    out = ["--out", str(tmp_path / "run")]
    main(["train", "tetrominoes-ras", *quick, *out])
    main(["train", "--resume", *out, "--steps", "3"])
    after = RunFolder(tmp_path / "run").read_settings()
    assert (after.preset.name, after.preset.train.steps) == ("tetrominoes-ras", 3)


def test_a_folder_called_like_a_preset_is_a_folder(tmp_path, quick, monkeypatch):
    monkeypatch.chdir(tmp_path)
    main(["train", "tetrominoes-ras", *quick, "--out", "tetrominoes"])
    assert RunFolder(tmp_path / "tetrominoes").read_settings().preset.name == "tetrominoes-ras"


def test_what_people_set_first_is_shown_first(capsys):
    with pytest.raises(SystemExit):
        main(["train", "tetrominoes", "--help"])
    lines = capsys.readouterr().out.splitlines()

    def row(flag: str) -> int:
        return next(number for number, line in enumerate(lines) if flag in line)

    assert max(map(row, ("--out", "--minutes", "--steps"))) < row("--model.dim")
    assert lines[0].startswith("usage: coca train tetrominoes")


def test_version(capsys):
    main(["--version"])
    assert capsys.readouterr().out == f"coca {version('cocanet')}\n"


def test_resume_takes_the_settings_of_the_run(tmp_path, quick, capsys):
    out = ["--out", str(tmp_path / "run")]
    main(["train", "tetrominoes", *quick, *out, "--learning-rate", "0.002"])
    assert "coca evaluate" in capsys.readouterr().out
    before = RunFolder(tmp_path / "run").read_settings()
    chosen = parse(["tetrominoes", *out, "--resume"])
    assert chosen.settings(0) == before
    main(["train", "tetrominoes", *out, "--resume", "--steps", "4"])
    after = RunFolder(tmp_path / "run").read_settings()
    assert after.preset.train.learning_rate == 0.002
    assert [step for step, _ in losses(tmp_path / "run")] == [1, 2, 3, 4]


def test_resume_starts_a_run_that_is_not_there_and_says_so(tmp_path, quick, capsys):
    main(["train", "tetrominoes", *quick, "--out", str(tmp_path / "run"), "--resume"])
    assert len(losses(tmp_path / "run")) == 2
    assert f"there is no run in {tmp_path / 'run'} to resume: starting one" in capsys.readouterr().out


def test_a_folder_of_runs_is_not_a_run_but_names_them(trained, capsys):
    error = refused(capsys, ["evaluate", str(trained.parent)])
    assert f"it has no last.safetensors; there are runs in it: {trained.name}" in error


def test_seeds_run_one_after_the_other(tmp_path, quick):
    main(["train", "tetrominoes", *quick, "--out", str(tmp_path), "--seeds", "3", "--seed", "4"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["seed-4", "seed-5", "seed-6"]
    first = {losses(tmp_path / f"seed-{seed}")[0] for seed in (4, 5, 6)}
    assert len(first) == 3


def test_scenes_are_made_where_none_are_given(tmp_path, monkeypatch):
    monkeypatch.setattr("cocanet.data.splits.VALIDATION_IMAGES", 8)
    main(["train", "tetrominoes", "--steps", "1", "--batch-size", "4", *TINY, "--out", str(tmp_path / "run")])
    assert len(losses(tmp_path / "run")) == 1


def test_tensorboard_on_request(tmp_path, quick):
    main(["train", "tetrominoes", *quick, "--out", str(tmp_path / "run"), "--tensorboard"])
    assert list((tmp_path / "run").glob("events.out.tfevents.*"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train"], "which preset? It comes first, `coca train PRESET …`: tetrominoes"),
        (["train", "tetromino"], "unknown preset 'tetromino': did you mean tetrominoes?"),
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


def test_images_of_the_wrong_size(capsys, tmp_path, data):
    error = refused(capsys, ["train", "multi-dsprites", "--data", str(data), "--out", str(tmp_path / "run")])
    assert "holds images of 32×32 pixels; this model takes 64×64" in error


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--model.levels.0.window", "5", "5"], "a grid of 32×32 cells does not divide into windows of 5×5"),
        (["--model.image-size", "48", "48"], "the decoder makes 32×32 images; expected 48×48"),
        (["--batch-size", "0"], "batch_size must be positive; got 0"),
        (["--minutes", "-3"], "minutes must be positive; got -3"),
        (["--steps", "many"], "invalid literal for int() with base 10: 'many'"),
        (["--learning-rat", "1"], "--learning-rate"),
    ],
)
def test_values_that_make_no_run(capsys, flags, message):
    with pytest.raises(SystemExit) as end:
        main(["train", "tetrominoes", *flags])
    assert end.value.code == 2
    error = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert message in error
    assert "Traceback" not in error


def test_a_run_in_the_way(capsys, quick, trained):
    assert "add --resume" in refused(capsys, ["train", "tetrominoes", *quick, "--out", str(trained)])


def test_resume_with_another_architecture(capsys, trained):
    flags = ["--out", str(trained), "--resume", "--model.dim", "24"]
    error = refused(capsys, ["train", "tetrominoes", *flags])
    assert "cannot be resumed with another model: it has model.dim: 16, not 24" in error
    assert "is a run of tetrominoes, not of clevr6" in refused(capsys, ["train", "clevr6", *flags[:3]])


def test_more_slots_than_there_are_nodes(capsys, trained):
    assert "cannot make 900 clusters" in refused(capsys, ["evaluate", str(trained), "--slots", "900"])


def test_a_truncated_checkpoint_and_a_file_of_another_program(capsys, tmp_path, trained):
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    last = run / "last.safetensors"
    last.write_bytes(last.read_bytes()[:5000])
    expected = "last.safetensors is truncated, or not a safetensors file"
    assert expected in refused(capsys, ["evaluate", str(run)])
    assert expected in refused(capsys, ["train", "tetrominoes", "--out", str(run), "--resume", "--steps", "9"])
    (tmp_path / "model.bin").write_bytes(b"GGUF" + bytes(100))
    assert "not a safetensors file" in refused(capsys, ["evaluate", str(tmp_path / "model.bin")])


def test_evaluate_and_report_a_run(tmp_path, trained, capsys):
    main(["evaluate", str(trained), "--json", str(tmp_path / "scores.json"), "--out", str(tmp_path / "files")])
    result = json.loads((tmp_path / "scores.json").read_text())
    assert result == json.loads((tmp_path / "files" / "evaluation.json").read_text())
    main(["report", str(trained), "--out", str(tmp_path / "report")])
    assert {path.suffix for path in (tmp_path / "report").iterdir()} == {".md", ".csv", ".tex", ".png"}
