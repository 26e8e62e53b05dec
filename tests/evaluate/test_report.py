"""`coca report`: which runs belong together, their statistics, and the same numbers in every format."""

from __future__ import annotations

import csv
import json
import re
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from cocanet import presets
from cocanet.cli.progress import ConsoleProgress
from cocanet.config import TrainConfig
from cocanet.data import splits
from cocanet.data.store_writer import write_store
from cocanet.evaluate.evaluation import FILE, Evaluation, Overrides, Speed, write_evaluation
from cocanet.evaluate.overrides import EvaluationSettings
from cocanet.evaluate.plots import Curve, curve_of, mean_curve, plot_curves
from cocanet.evaluate.provenance import provenance
from cocanet.evaluate.report import write_report
from cocanet.evaluate.runs import find_runs, group_runs, score_run
from cocanet.evaluate.scored_images import ScoredImages
from cocanet.evaluate.trained import evaluate_trained
from cocanet.explain import figures
from cocanet.metrics.table import SCORES, SLOTS, TABLE, title
from cocanet.paper_scores import PAPER
from tests.small_runs import OneObject, Squares, make_run, tiny_preset


@pytest.fixture(autouse=True)
def small_splits(tmp_path, monkeypatch, no_pictures):
    monkeypatch.setenv("COCANET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(splits, "TEST_IMAGES", 12)


def validations(seed: int = 0, count: int = 3) -> tuple[dict[str, Any], ...]:
    rng = np.random.default_rng(seed)
    return tuple(
        {
            "kind": "validation",
            "step": 100 * number,
            "images": 1600 * number,
            "seconds": (60 + seed) * number,
            "scores": {name: float(rng.random()) for name in SCORES + SLOTS},
            "warnings": [],
        }
        for number in range(1, count + 1)
    )


def scored_run(
    path: Path,
    scores: dict[str, float | None] | None = None,
    *,
    sha256: str = "ab" * 32,
    weights: str = "last.safetensors",
    data_name: str = "tetrominoes",
    overrides: Overrides = Overrides(4),  # noqa: B008
    **changes: Any,
) -> Path:
    """A run with an evaluation of made-up scores, which takes no time."""
    run = make_run(path, **changes)
    rng = np.random.default_rng(changes.get("seed", 0))
    own = data_name if data_name == "tetrominoes" else None
    preset = changes.get("preset") or tiny_preset()
    evaluation = Evaluation(
        preset="tetrominoes",
        weights=weights,
        step=changes.get("step", 500) // (2 if weights == "best.safetensors" else 1),
        scores={name: float(rng.random()) for name in SCORES} | (scores or {}),
        slots={name: float(rng.random()) for name in SLOTS},
        images=40,
        images_without_foreground=0,
        data=ScoredImages(data_name, own, None, "some images", True, 1, sha256, "generated"),
        overrides=overrides,
        provenance=provenance(preset, "generated", 40, sha256, refined=overrides.refined),
        speed=Speed(9.5, 16, "cpu", 1),
    )
    (run / FILE).write_text(evaluation.to_json())
    return run


def scored(*runs: Path):
    return [score_run(run) for run in runs]


def test_mean_and_sample_deviation_over_seeds_in_every_format(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("cocanet.evaluate.report.save", figures.save)
    runs = [scored_run(tmp_path / "runs" / f"seed-{seed}", seed=seed, journal=validations(seed)) for seed in range(3)]
    write_report([tmp_path / "runs"], tmp_path / "out", ConsoleProgress())
    scores = [json.loads((run / FILE).read_text())["scores"] for run in runs]
    with (tmp_path / "out" / "report.csv").open() as file:
        rows = {row["score"]: row for row in csv.DictReader(file)}
    markdown, latex = ((tmp_path / "out" / f"report.{end}").read_text() for end in ("md", "tex"))
    assert tuple(rows) == tuple(TABLE)
    for column, name in enumerate(SCORES):
        values = [found[name] for found in scores]
        mean, deviation = statistics.mean(values), statistics.stdev(values)
        assert float(rows[name]["mean"]) == pytest.approx(mean, abs=1e-15)
        assert float(rows[name]["deviation"]) == pytest.approx(deviation, abs=1e-15)
        assert rows[name]["seeds"] == "3"
        paper = PAPER["coca-net", "tetrominoes"].scores[name]
        assert (float(rows[name]["paper_mean"]), float(rows[name]["paper_deviation"])) == (paper.mean, paper.deviation)
        digits = 4 if name == "mse" else 3
        ours = f"{mean:.{digits}f} ± {deviation:.{digits}f}"
        line = next(line for line in markdown.splitlines() if line.startswith(f"| {title(name)} "))
        assert [cell.strip() for cell in line.split("|")[2:4]] == [ours, str(paper)]
        cells = [latex_cells(latex, title)[3 + column] for title in ("tetrominoes", "paper's COCA-Net")]
        assert cells == [ours.replace("±", r"$\pm$"), str(paper).replace("±", r"$\pm$")]
    assert markdown in capsys.readouterr().out
    with Image.open(tmp_path / "out" / "report.png") as picture:
        assert picture.width > picture.height


def latex_cells(latex: str, title: str) -> list[str]:
    line = next(line for line in latex.splitlines() if line.strip().startswith(f"{title} &"))
    return [cell.strip() for cell in line.removesuffix(r"\\").split("&")]


def test_latex_is_whole_and_escaped(tmp_path):
    preset = tiny_preset(name="my_model")
    scored_run(tmp_path / "a", preset=preset, data_name="50%_of_it")
    write_report([tmp_path / "a"], tmp_path / "out", ConsoleProgress())
    latex = (tmp_path / "out" / "report.tex").read_text()
    assert r"my\_model &" in latex
    assert r"{50\%\_of\_it}" in latex
    body = latex[latex.index(r"\begin{tabular}") :]
    columns = len(re.search(r"\\begin\{tabular\}\{(\w+)\}", body)[1])
    for line in body.splitlines():
        if "&" in line:
            spans = sum(int(span) - 1 for span in re.findall(r"\\multicolumn\{(\d+)\}", line))
            assert line.count("&") + 1 + spans == columns, line
    assert re.findall(r"\\begin\{(\S+?)\}", latex) == re.findall(r"\\end\{(\S+?)\}", latex)[::-1]
    stripped = re.sub(r"\\[{}]", "", latex)
    assert stripped.count("{") == stripped.count("}")
    assert not re.search(r"(?<!\\)_", latex)


def test_one_seed_has_no_deviation_and_a_missing_score_is_a_dash(tmp_path):
    scored_run(tmp_path / "a", dict.fromkeys(SCORES[:8]) | {"mse": 0.25})
    (group,) = write_report([tmp_path / "a"], tmp_path / "out", ConsoleProgress())
    assert group.deviation("mse") is None
    assert group.mean("decoder_ari") is None
    markdown = (tmp_path / "out" / "report.md").read_text()
    assert re.search(r"\| MSE +\| +0\.2500 \|", markdown)
    assert re.search(r"\| decoder ARI +\| +– \|", markdown)
    assert not (tmp_path / "out" / "report.png").exists()


def test_a_run_without_an_evaluation_is_scored_now(tmp_path, capsys):
    run = make_run(tmp_path / "run", journal=validations())
    (group,) = write_report([run], tmp_path / "out", ConsoleProgress())
    expected = evaluate_trained(run, EvaluationSettings()).scores
    assert group.mean("decoder_msc") == expected["decoder_msc"]
    assert (run / FILE).exists()
    assert "has not been evaluated: scoring it now" in capsys.readouterr().out


def test_an_evaluation_older_than_the_weights_is_done_again(tmp_path, capsys):
    run = scored_run(tmp_path / "run", {"mse": 77.0}, step=500)
    plain = json.loads((run / FILE).read_text())
    (run / FILE).write_text(json.dumps(plain | {"step": 400}))
    (group,) = write_report([run], tmp_path / "out", ConsoleProgress())
    assert group.mean("mse") < 1
    assert "was evaluated at step 400 and is now at 500" in capsys.readouterr().out


def test_without_evaluating_the_last_validation_is_shown_and_marked(tmp_path):
    journal = validations()
    make_run(tmp_path / "runs" / "seed-0", journal=journal)
    scored_run(tmp_path / "runs" / "seed-1", seed=1)
    one, other = write_report([tmp_path / "runs"], tmp_path / "out", ConsoleProgress(), evaluate=False)
    assert {one.title, other.title} == {"tetrominoes (validation)", "tetrominoes"}
    shown = next(group for group in (one, other) if "validation" in group.title)
    assert shown.mean("mse") == journal[-1]["scores"]["mse"]
    assert shown.runs[0].step == 300
    assert "not test scores" in (tmp_path / "out" / "report.md").read_text()
    assert not (tmp_path / "runs" / "seed-0" / FILE).exists()
    make_run(tmp_path / "new")
    with pytest.raises(ValueError, match="neither an evaluation nor validation scores"):
        write_report([tmp_path / "new"], tmp_path / "out", ConsoleProgress(), evaluate=False)


def test_runs_that_differ_in_more_than_the_seed_are_separate_groups(tmp_path):
    short, long = (tiny_preset(train=TrainConfig(steps=steps)) for steps in (100, 200))
    counting = Overrides(4, paper_empty_foreground=True)
    runs = [
        scored_run(tmp_path / "a", preset=short),
        scored_run(tmp_path / "b", preset=long),
        scored_run(tmp_path / "c", preset=long, seed=1),
        scored_run(tmp_path / "d", preset=presets.with_random_anchors(short)),
        scored_run(tmp_path / "e", preset=short, weights="best.safetensors", overrides=counting),
        scored_run(tmp_path / "f", preset=short, overrides=Overrides(3)),
        scored_run(tmp_path / "g", preset=short, overrides=Overrides(4, refined=True)),
    ]
    found = {group.title: len(group.runs) for group in group_runs(scored(*runs))}
    assert found == {
        "tetrominoes": 1,
        "tetrominoes (train.steps: 200, not 100)": 2,
        "tetrominoes-ras": 1,
        "tetrominoes (best checkpoint, paper's counting)": 1,
        "tetrominoes-slots3": 1,
        "tetrominoes (refined)": 1,
    }


def test_runs_with_the_same_minutes_are_one_group_whatever_their_steps(tmp_path):
    presets_of = [tiny_preset(train=TrainConfig(steps=steps)) for steps in (180, 200)]
    runs = [
        scored_run(tmp_path / str(seed), preset=preset, seed=seed, step=preset.train.steps, minutes=20.0)
        for seed, preset in enumerate(presets_of)
    ]
    (group,) = group_runs(scored(*runs))
    assert [run.step for run in group.runs] == [180, 200]
    other = scored_run(tmp_path / "other", preset=presets_of[0], seed=2, minutes=10.0)
    assert len(group_runs(scored(*runs, other))) == 2


def test_data_sets_have_tables_of_their_own(tmp_path):
    write_store(Squares(10), tmp_path / "squares")
    run = make_run(tmp_path / "run")
    write_evaluation(evaluate_trained(run, EvaluationSettings(data=tmp_path / "squares")), run)
    scored_run(tmp_path / "other")
    groups = write_report([run, tmp_path / "other"], tmp_path / "out", ConsoleProgress())
    assert [group.data_name for group in groups] == ["squares", "tetrominoes"]
    markdown = (tmp_path / "out" / "report.md").read_text()
    assert markdown.index("## squares") < markdown.index("## tetrominoes") < markdown.index("paper's COCA-Net")


def test_one_group_needs_the_same_images_and_different_seeds(tmp_path):
    one = scored_run(tmp_path / "a")
    other = scored_run(tmp_path / "b", seed=1, sha256="cd" * 32)
    with pytest.raises(ValueError, match=r"/a and .*/b .*different images of tetrominoes.*ababab.*cdcdcd"):
        group_runs(scored(one, other))
    same = scored_run(tmp_path / "c")
    with pytest.raises(ValueError, match=r"/a and .*/c do not differ, not even in their seed 0"):
        group_runs(scored(one, same))


def test_runs_are_found_once_in_the_order_named(tmp_path):
    for name in ("seeds/seed-1", "seeds/seed-0", "alone"):
        make_run(tmp_path / name)
    (tmp_path / "seeds" / "notes").mkdir()
    found = find_runs([tmp_path / "seeds", tmp_path / "alone", tmp_path / "seeds" / "seed-0"])
    assert found == [tmp_path / "seeds" / "seed-0", tmp_path / "seeds" / "seed-1", tmp_path / "alone"]


def test_folders_without_runs_are_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    for name, reason in (("empty", r"there is no run\.json"), ("file", "it is a file"), ("none", "does not exist")):
        with pytest.raises(ValueError, match=rf"{name} is not a run folder.*{reason}"):
            find_runs([tmp_path / name])
    with pytest.raises(ValueError, match="there are no runs"):
        find_runs([])


def test_a_damaged_evaluation_is_named(tmp_path):
    run = make_run(tmp_path / "run")
    for text, message in (("{", "is damaged"), ('{"format": "x"}', "does not describe")):
        (run / FILE).write_text(text)
        with pytest.raises(ValueError, match=rf"evaluation\.json {message}"):
            score_run(run)


def test_curves_leave_out_what_is_missing_and_the_mean_is_where_all_are(tmp_path):
    lines = validations(count=4)
    lines[1]["scores"]["mse"] = None
    (run,) = scored(scored_run(tmp_path / "run", journal=lines))
    at, scores = curve_of(run, "mse", "seconds")
    assert at.tolist() == [1, 3, 4]
    assert scores.tolist() == [lines[number]["scores"]["mse"] for number in (0, 2, 3)]
    one = Curve(np.array([0.0, 2.0, 4.0]), np.array([0.0, 2.0, 4.0]))
    other = Curve(np.array([1.0, 3.0]), np.array([5.0, 5.0]))
    places, mean = mean_curve([one, other])
    assert places.tolist() == [1, 2, 3]
    assert mean.tolist() == [3, 3.5, 4]


def test_the_plot_has_a_thin_line_for_each_seed_and_a_thick_line_for_their_mean(tmp_path):
    runs = [scored_run(tmp_path / str(seed), seed=seed, journal=validations(seed)) for seed in range(2)]
    preset = replace(tiny_preset(), name="other")
    runs.append(scored_run(tmp_path / "other", preset=preset, journal=validations(5)))
    figure = plot_curves(group_runs(scored(*runs)))
    for axis in figure.axes[1:]:
        drawn = [line for line in axis.lines if len(line.get_xdata())]
        assert sorted(line.get_linewidth() < 1 for line in drawn) == [False, False, True, True, True]
        assert len({tuple(line.get_color()) for line in drawn}) == 2


def test_photographs_have_their_overlaps_baselines_and_the_papers_rows(tmp_path):
    write_store(OneObject(12, name="birds"), tmp_path / "birds")
    runs = [make_run(tmp_path / f"seed-{seed}", seed=seed) for seed in (0, 1)]
    for run in runs:
        write_evaluation(evaluate_trained(run, EvaluationSettings(data=tmp_path / "birds")), run)
    write_report(runs, tmp_path / "out")
    markdown, latex = ((tmp_path / "out" / f"report.{end}").read_text() for end in ("md", "tex"))
    found = [json.loads((run / FILE).read_text()) for run in runs]
    lines = {line.split("|")[1].strip(): line for line in markdown.splitlines() if line.startswith("|")}
    mean = statistics.mean(plain["scores"]["encoder_iou_both"] for plain in found)
    cells = [cell.strip() for cell in lines["encoder IoU with background"].split("|")]
    assert cells[2].startswith(f"{mean:.3f} ± ")
    assert cells[3] == "0.5778"
    assert markdown.count("it does not say how") == 1
    assert lines["steps"].split("|")[3].strip() == "–", "the paper does not say how long it trained"
    assert len(found[0]["baselines"]) == 7
    for baseline in found[0]["baselines"]:
        assert markdown.count(f"| {baseline['title']} ") == 1, "once for all seeds"
        cells = [cell.strip() for cell in lines[baseline["title"]].split("|")[2:6]]
        assert cells == [f"{baseline['scores'][name]:.3f}" for name in ("iou", "dice", "iou_both", "dice_both")]
    with (tmp_path / "out" / "report.csv").open() as file:
        rows = {(row["model"], row["score"]): row for row in csv.DictReader(file)}
    assert float(rows["tetrominoes (trained on tetrominoes)", "encoder_dice_both"]["paper_mean"]) == 0.7238
    disc = next(baseline for baseline in found[0]["baselines"] if baseline["title"] == "central disc")
    assert float(rows["central disc", "iou"]["mean"]) == disc["scores"]["iou"]
    assert rows["central disc", "iou"]["sha256"] == found[0]["data"]["sha256"]
    tables = latex.split(r"\begin{tabular}")[1:]
    assert len(tables) == 2
    assert "encoder IoU with background" in tables[1]
    assert "0.5778" in tables[1]
    assert "paper's" not in tables[0], "it has none of these nine"
    for text in tables:
        columns = len(re.match(r"\{(\w+)\}", text)[1])
        assert {line.count("&") + 1 for line in text.splitlines() if re.match(r"\s+(Model|tetro|paper)", line)} == {
            columns
        }


def test_notes_stand_above_the_scores(tmp_path):
    scored_run(tmp_path / "a", overrides=Overrides(4, refined=True))
    write_report([tmp_path / "a"], tmp_path / "out")
    markdown = (tmp_path / "out" / "report.md").read_text()
    table = markdown.index("| decoder ARI-FG")
    for note in (
        f"Tested on generated scenes, sha256 `{'ab' * 32}`.",
        "The paper's scores are of the published images.",
        "trained by reconstruction; spatial broadcast decoder; encoder masks refined after the network.",
    ):
        assert markdown.index(note) < table
    assert "| baselines" not in markdown
