"""`coca compare`: what is trained and what is not again, the same numbers in every format, what a failure leaves."""

from __future__ import annotations

import csv
import json
import re
import statistics
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from cocanet import build, presets
from cocanet.cli.compare import run_compare
from cocanet.config import RunConfig
from cocanet.data.store_writer import write_store
from cocanet.evaluate.compare import MODELS, Comparison, Job, Note, models_for, plan, preset_name, read_note, write_note
from cocanet.evaluate.evaluation import FILE, write_evaluation
from cocanet.evaluate.overrides import EvaluationSettings
from cocanet.evaluate.trained import evaluate_trained
from cocanet.io.run_folder import DataChoice, RunFolder, Settings
from cocanet.io.weights import write_weights
from cocanet.metrics.table import SCORES, title
from cocanet.paper_scores import PAPER
from cocanet.train.interrupt import Stopped
from tests.small_runs import OneObject, Squares

pytestmark = pytest.mark.usefixtures("no_pictures")
PAIR = ("coca-net", "slot-attention")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("squares") / "store"
    write_store(Squares(30), path)
    return path


class FakeTrainer:
    """Leaves what a training leaves, at once; may fail, or stop before a run."""

    def __init__(self, fails=(), stops_at: int | None = None, half: bool = False) -> None:
        self.fails, self.stops_at, self.half = fails, stops_at, half
        self.trained: list[tuple[str, int]] = []

    def __call__(self, job: Job) -> None:
        if self.stops_at == len(self.trained):
            raise Stopped("stopped", 2)
        self.trained.append((job.model, job.seed))
        job.run.mkdir(parents=True, exist_ok=True)
        folder = RunFolder(job.run)
        folder.write_settings(
            Settings(
                job.preset, RunConfig(seed=job.seed, minutes=job.comparison.minutes), DataChoice(job.comparison.data)
            )
        )
        if job.model in self.fails:
            write_note(job.run, Note(10**8, "the loss is nan at step 7, on images " + str(list(range(100)))))
            return
        number = MODELS.index(job.model) + 1
        notes = {"step": 10 * number + job.seed, "images": 640 * number, "seconds": 60.0, "finished": not self.half}
        write_weights(folder.last, job.preset, build(job.preset, seed=job.seed).state_dict(), notes)
        folder.metrics.write_text("".join(json.dumps(line) + "\n" for line in _validations(number + job.seed)))
        write_note(job.run, Note(10**9 + 10**8 * number + job.seed))


def _validations(seed: int):
    rng = np.random.default_rng(seed)
    for at in (20.0, 40.0, 60.0):
        scores = {name: float(rng.random()) * at / 60 for name in SCORES}
        yield {
            "kind": "validation",
            "step": int(at),
            "images": int(at),
            "seconds": at,
            "scores": scores,
            "warnings": [],
        }


def untouched(job: Job) -> None:
    raise AssertionError(f"{job.title} was trained")


def compare(out: Path, store: Path, trainer, **changes) -> int:
    settings = {"models": PAIR, "minutes": 1.0, "data": store} | changes
    return run_compare("tetrominoes", out=out, trainer=trainer, **settings)


def table(out: Path) -> dict[str, dict[str, str]]:
    """The cells of comparison.md by row and column, bold as written."""
    rows: dict[str, dict[str, str]] = {}
    header: list[str] = []
    for line in (out / "comparison.md").read_text().splitlines():
        if not line.startswith("|"):
            header = []
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not header:
            header = cells
        elif not set(line) <= set("|-: "):
            rows.setdefault(cells[0], {}).update(zip(header[1:], cells[1:], strict=True))
    return rows


def number(cell: str) -> float:
    return float(cell.strip("*").replace(",", "").split()[0])


def test_names_are_those_of_presets():
    assert preset_name("coca-net", "clevr6") == "clevr6"
    assert preset_name("coca-net-fast", "clevr6") == "clevr6-fast"
    assert preset_name("genesis-v2", "objects-room") == "genesis-v2-objects-room"
    for data_set in presets.PRESETS:
        for model in MODELS:
            assert presets.find(preset_name(model, data_set)).data == presets.find(data_set).data


def test_photographs_compare_models_with_token_decoders():
    assert models_for("birds") == ("coca-net", "bo-qsa")
    assert models_for("clevr6") == MODELS
    assert all(presets.find(preset_name(model, "flowers")).has_token_decoder for model in models_for("flowers"))
    with pytest.raises(ValueError, match=r"unknown model 'inv-sa'.*there are coca-net.*bo-qsa$"):
        preset_name("inv-sa", "birds")
    with pytest.raises(ValueError, match="unknown model 'bo-qsa-ras'"):
        preset_name("bo-qsa-ras", "clevr6")


def test_every_model_has_a_run_before_any_has_two(tmp_path):
    jobs = plan(Comparison("tetrominoes", 1.0, 1), PAIR, 2, tmp_path)
    assert [(job.model, job.seed) for job in jobs] == [(model, seed) for seed in (0, 1) for model in PAIR]


def test_numbers_are_those_of_the_files(tmp_path, store, capsys):
    assert compare(tmp_path / "out", store, FakeTrainer(), seeds=2) == 0
    rows = table(tmp_path / "out")
    assert list(rows) == list(PAIR)
    lines = list(csv.DictReader((tmp_path / "out" / "comparison.csv").open()))
    latex = (tmp_path / "out" / "comparison.tex").read_text()
    for model in PAIR:
        runs = [tmp_path / "out" / model / f"seed-{seed}" for seed in (0, 1)]
        found = [json.loads((run / FILE).read_text()) for run in runs]
        for name in SCORES:
            values = [plain["scores"][name] for plain in found]
            mean, deviation = statistics.mean(values), statistics.stdev(values)
            digits = 4 if name == "mse" else 3
            text = f"{mean:.{digits}f} ± {deviation:.{digits}f}"
            assert rows[model][title(name)].strip("*") == text
            assert text.replace("±", r"$\pm$") in latex
            line = next(line for line in lines if (line["model"], line["score"]) == (model, name))
            assert (float(line["mean"]), float(line["deviation"])) == (mean, deviation)
        speeds = [plain["speed"]["images_per_second"] for plain in found]
        assert number(rows[model]["evaluation, images/s"]) == pytest.approx(statistics.mean(speeds), abs=0.06)
        order = MODELS.index(model) + 1
        assert number(rows[model]["training, images/s"]) == pytest.approx(640 * order / 60, abs=0.06)
        assert number(rows[model]["peak memory"]) == pytest.approx(1 + 0.1 * order, abs=0.006)
        weights = build(presets.find(preset_name(model, "tetrominoes"))).parameters()
        assert number(rows[model]["parameters"]) == sum(weight.numel() for weight in weights)
        assert rows[model]["steps"] == f"{10 * order}–{10 * order + 1}"
        slots = [
            statistics.mean(plain["slots"][name] for plain in found) for name in ("decoder_slots", "encoder_slots")
        ]
        assert rows[model]["slots used, decoder / encoder"] == f"{slots[0]:.1f} / {slots[1]:.1f} of 4"
    assert f"on {torch.get_num_threads()} thread" in capsys.readouterr().out


def test_the_best_is_bold_and_of_the_error_the_lowest(tmp_path, store):
    def scored(run: Path, score: float) -> None:
        plain = json.loads((run / FILE).read_text())
        plain["scores"] = dict.fromkeys(SCORES, score) | {"mse": score / 10, "encoder_ari": 0.25}
        (run / FILE).write_text(json.dumps(plain))

    out = tmp_path / "out"
    compare(out, store, FakeTrainer())
    scored(out / "coca-net" / "seed-0", 0.75)
    scored(out / "slot-attention" / "seed-0", 0.5)
    compare(out, store, untouched)
    ours, theirs = (table(out)[model] for model in PAIR)
    assert ours["decoder ARI-FG"] == "**0.750**"
    assert theirs["decoder ARI-FG"] == "0.500"
    assert (ours["MSE"], theirs["MSE"]) == ("0.0750", "**0.0500**")
    assert ours["encoder ARI"] == theirs["encoder ARI"] == "**0.250**"
    assert (ours["peak memory"], theirs["peak memory"]) == ("**1.10 GB**", "1.30 GB")
    assert (ours["training, images/s"], theirs["training, images/s"]) == ("10.7", "**32.0**")
    assert r"\textbf{0.750}" in (out / "comparison.tex").read_text()


def test_the_papers_rows_stand_below_those_they_belong_to(tmp_path, monkeypatch):
    monkeypatch.setattr("cocanet.data.splits.TEST_IMAGES", 4)
    monkeypatch.setattr("cocanet.data.splits.VALIDATION_IMAGES", 4)
    models = ("coca-net", "coca-net-fast", "slot-attention")
    compare(tmp_path / "out", None, FakeTrainer(), models=models)
    rows = table(tmp_path / "out")
    assert list(rows) == ["coca-net", "coca-net-fast", "paper's COCA-Net", "slot-attention"]
    for name in SCORES:
        assert rows["paper's COCA-Net"][title(name)] == str(PAPER["coca-net", "tetrominoes"].scores[name])


def test_photographs_have_overlaps_and_baselines(tmp_path):
    write_store(OneObject(30, name="birds"), tmp_path / "birds")
    out = tmp_path / "out"
    models = ("coca-net", "bo-qsa")
    assert compare(out, tmp_path / "birds", FakeTrainer(), models=models) == 0
    rows, text = table(out), (out / "comparison.md").read_text()
    assert list(rows)[:4] == ["coca-net", "paper's COCA-Net", "bo-qsa", "paper's BO-QSA"]
    assert rows["paper's BO-QSA"]["encoder IoU"] == rows["paper's BO-QSA"]["encoder IoU with background"] == "0.5565"
    assert rows["paper's COCA-Net"]["encoder Dice"] == "0.7238"
    assert text.count("it does not say how") == 1
    plain = {model: json.loads((out / model / "seed-0" / FILE).read_text()) for model in models}
    for model in models:
        assert (
            rows[model]["encoder IoU with background"].strip("*") == f"{plain[model]['scores']['encoder_iou_both']:.3f}"
        )
        assert rows[f"{model}, encoder"]["IoU"] == f"{plain[model]['scores']['encoder_iou']:.3f}"
    (disc,) = (each for each in plain["coca-net"]["baselines"] if each["name"] == "disc")
    assert rows["central disc"]["Dice with background"] == f"{disc['scores']['dice_both']:.3f}"
    assert [name for name in rows if name.startswith("untrained")] == [
        "untrained encoder of tetrominoes",
        "untrained encoder of bo-qsa-tetrominoes",
    ]
    assert text.count("| central disc") == 1
    lines = list(csv.DictReader((out / "comparison.csv").open()))
    assert [line["mean"] for line in lines if (line["model"], line["score"]) == ("central disc", "iou")] == [
        repr(disc["scores"]["iou"])
    ]
    latex = (out / "comparison.tex").read_text()
    assert latex.count(r"\begin{tabular}") == latex.count(r"\end{tabular}") == 3
    assert "0.5565" in latex


def test_a_comparison_continues_where_it_was_stopped(tmp_path, store):
    out = tmp_path / "out"
    with pytest.raises(Stopped, match="the same command goes on"):
        compare(out, store, FakeTrainer(stops_at=1))
    assert list(table(out)) == ["coca-net"]
    assert "Not run yet: slot-attention, seed 0" in (out / "comparison.md").read_text()
    evaluated = (out / "coca-net" / "seed-0" / FILE).stat().st_mtime_ns
    remaining = FakeTrainer()
    compare(out, store, remaining)
    assert remaining.trained == [("slot-attention", 0)]
    assert (out / "coca-net" / "seed-0" / FILE).stat().st_mtime_ns == evaluated
    more = FakeTrainer()
    compare(out, store, more, seeds=2)
    assert more.trained == [("coca-net", 1), ("slot-attention", 1)]


def test_a_half_finished_run_is_resumed(tmp_path, store):
    out = tmp_path / "out"
    compare(out, store, FakeTrainer(half=True), models=("coca-net",))
    again = FakeTrainer()
    compare(out, store, again, models=("coca-net",))
    assert again.trained == [("coca-net", 0)]
    comparison = Comparison("tetrominoes", 2.5, 1, 8, str(store), {"preset": {"train": {"clip_norm": 1.0}}})
    for model, preset in (("inv-sa", "inv-sa-tetrominoes"), ("coca-net", "tetrominoes")):
        settings = plan(comparison, (model,), 1, out)[0].settings
        own = presets.find(preset)
        assert settings.preset == replace(own, train=replace(own.train, batch_size=8, clip_norm=1.0))
        assert (settings.run.seed, settings.run.minutes, settings.data.path) == (0, 2.5, str(store))


def test_an_evaluation_with_other_options_is_repeated(tmp_path, store):
    def scores() -> list[str]:
        return [line for line in (out / "comparison.csv").read_text().splitlines() if "per_second" not in line]

    out, model = tmp_path / "out", "slot-attention"
    compare(out, store, FakeTrainer(), models=(model,))
    before, run = scores(), out / model / "seed-0"
    for option in ("paper_empty_foreground", "paper_masks", "refine"):
        write_evaluation(evaluate_trained(run, EvaluationSettings(**{option: True})), run)
        compare(out, store, untouched, models=(model,))
        assert scores() == before


def test_encoder_scores_with_the_papers_masks_are_noted(tmp_path, store):
    out = tmp_path / "out"
    compare(out, store, FakeTrainer())
    expected = evaluate_trained(out / "slot-attention" / "seed-0", EvaluationSettings(paper_masks=True)).to_dict()
    (line,) = (line for line in (out / "comparison.md").read_text().splitlines() if "as the paper normalises" in line)
    assert line.startswith("- slot-attention ")
    written = re.findall(r"(ARI-FG|mSC-FG|ARI|mSC) (-?\d\.\d{3})", line)
    names = ("encoder_ari_fg", "encoder_msc_fg", "encoder_ari", "encoder_msc")
    assert [value for _, value in written] == [f"{expected['scores'][name]:.3f}" for name in names]
    usual = json.loads((out / "slot-attention" / "seed-0" / FILE).read_text())["scores"]
    assert any(usual[name] != expected["scores"][name] for name in names)


def test_models_that_were_finished_before_stay_in_the_table(tmp_path, store):
    out = tmp_path / "out"
    compare(out, store, FakeTrainer(), models=("coca-net",))
    trainer = FakeTrainer()
    compare(out, store, trainer, models=("slot-attention",))
    assert trainer.trained == [("slot-attention", 0)]
    assert list(table(out)) == list(PAIR)


def test_a_failed_model_is_noted_and_the_others_continue(tmp_path, store, capsys):
    out = tmp_path / "out"
    trainer = FakeTrainer(fails=("coca-net",))
    assert compare(out, store, trainer) == 1
    assert trainer.trained == [("coca-net", 0), ("slot-attention", 0)]
    rows = table(out)
    assert rows["coca-net"]["seeds"] == "failed"
    assert set(rows["coca-net"].values()) == {"failed", "–"}
    assert rows["slot-attention"]["seeds"] == "1"
    text = (out / "comparison.md").read_text()
    reason = re.search(r"- coca-net, seed 0, failed: (.*)", text).group(1)
    assert reason.startswith("the loss is nan at step 7")
    assert len(reason) == 160
    assert "failed: the loss is nan" in (out / "comparison.tex").read_text()
    again = FakeTrainer()
    assert compare(out, store, again) == 0
    assert again.trained == [("coca-net", 0)]
    assert "failed" not in (out / "comparison.md").read_text()


def test_all_models_may_fail(tmp_path, store):
    assert compare(tmp_path / "out", store, FakeTrainer(fails=PAIR)) == 1
    assert list(table(tmp_path / "out")) == list(PAIR)
    assert not (tmp_path / "out" / "comparison.png").exists()


def test_a_run_that_cannot_be_evaluated_has_failed(tmp_path, store):
    def spoilt(job: Job) -> None:
        FakeTrainer()(job)
        weights = build(job.preset).state_dict()
        spoilt = {name: torch.full_like(weight, torch.nan) for name, weight in weights.items()}
        notes = {"step": 1, "images": 1, "seconds": 1.0, "finished": True}
        write_weights(RunFolder(job.run).last, job.preset, spoilt, notes)

    assert compare(tmp_path / "out", store, spoilt, models=("coca-net",)) == 1
    assert "failed: not evaluated: " in (tmp_path / "out" / "comparison.md").read_text()


def test_mistakes_leave_nothing_behind(tmp_path, store):
    for changes, message in (
        ({"models": ("slot-atention",)}, "unknown model 'slot-atention': did you mean slot-attention?"),
        ({"models": ("coca-net-fats",)}, "did you mean coca-net-fast?"),
        ({"models": ()}, "there are no models to compare"),
        ({"models": ("coca-net", "coca-net")}, "the model coca-net is named 2 times"),
        ({"minutes": 0.0}, "minutes must be positive; got 0"),
        ({"minutes": float("nan")}, "minutes must be positive; got nan"),
        ({"seeds": 0}, "seeds must be at least 1; got 0"),
        ({"batch_size": 0}, "batch size must be at least 1; got 0"),
        ({"data": Path("/nowhere")}, "the data folder /nowhere does not exist"),
    ):
        with pytest.raises(ValueError, match=r"^[^\n]*$") as error:
            compare(tmp_path / "out", store, untouched, **changes)
        assert message in str(error.value)
    with pytest.raises(ValueError, match="unknown data set 'tetromino': did you mean tetrominoes"):
        run_compare("tetromino", minutes=1.0, out=tmp_path / "out")
    with pytest.raises(ValueError, match="holds images of 32×32 pixels; this model takes 64×64"):
        run_compare("multi-dsprites", minutes=1.0, data=store, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_of_another_comparison(tmp_path, store, monkeypatch):
    out = tmp_path / "out"
    compare(out, store, FakeTrainer(), models=("coca-net",))
    monkeypatch.setattr("cocanet.evaluate.compare.prepare_data", lambda comparison, progress: None)
    for changes, difference in (
        ({"minutes": 2.0}, r"minutes: 1.0, not 2.0; choose another --out"),
        ({"batch_size": 4}, r"batch_size: null, not 4"),
        ({"data": None}, r"data: .*, not null"),
    ):
        with pytest.raises(ValueError, match=f"holds runs made with {difference}"):
            compare(out, store, untouched, **changes)
    monkeypatch.setattr("torch.get_num_threads", lambda: 77)
    with pytest.raises(ValueError, match=r"threads: \d+, not 77; set OMP_NUM_THREADS"):
        compare(out, store, untouched)
    other = tmp_path / "other"
    other.mkdir()
    (other / "letter.txt").write_text("mine")
    monkeypatch.undo()
    with pytest.raises(ValueError, match="neither empty nor the folder of a comparison"):
        compare(other, store, untouched)


def test_a_note_round_trips(tmp_path):
    assert read_note(tmp_path) == Note()
    write_note(tmp_path / "run", Note(5, "why"))
    assert read_note(tmp_path / "run") == Note(5, "why")
    (tmp_path / "run" / "compare.json").write_text("{")
    with pytest.raises(ValueError, match=r"compare\.json is damaged"):
        read_note(tmp_path / "run")
