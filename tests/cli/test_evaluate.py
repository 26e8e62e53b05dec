"""`coca evaluate`: its numbers, which images it takes, the files it writes, and what it refuses."""

from __future__ import annotations

import csv
import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.metrics import adjusted_rand_score, jaccard_score

from cocanet import presets
from cocanet.cli.evaluate import run_evaluation
from cocanet.config import DataConfig, FeedbackConfig
from cocanet.config.slots import preset_with_slots
from cocanet.data import splits
from cocanet.data.loader import Loader, LoaderConfig
from cocanet.data.sample import Sample
from cocanet.data.store import Store
from cocanet.data.store_writer import write_store
from cocanet.evaluation.files import PER_IMAGE, WORST, worst_scenes
from cocanet.evaluation.protocol import evaluate
from cocanet.evaluation.result import FILE as RESULT
from cocanet.evaluation.result import Result
from cocanet.evaluation.settings import EvaluationSettings
from cocanet.evaluation.trained import evaluate_trained
from cocanet.labels import UNLABELLED
from cocanet.metrics.segmentation import ForegroundOverlap
from cocanet.metrics.table import OF_MASKS, SCORES, TABLE, title
from cocanet.report.files import write_report
from cocanet.weights import open_model, write_weights
from tests.small_runs import OneThing, Squares, make_run, tiny_preset

TEST_IMAGES = 24


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def small_splits(cache, monkeypatch):
    monkeypatch.setenv("COCANET_CACHE", str(cache))
    monkeypatch.setattr(splits, "TEST_IMAGES", TEST_IMAGES)


@pytest.fixture(scope="module")
def squares(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "squares"
    write_store(Squares(40), folder)
    return folder


def result_of(folder: Path) -> dict:
    return json.loads((folder / RESULT).read_text())


def without_speed(plain: dict) -> dict:
    return {name: value for name, value in plain.items() if name != "images_per_second"}


def test_scores_are_those_of_the_protocol_on_the_frozen_split(tmp_path):
    run = make_run(tmp_path / "run")
    run_evaluation(run, EvaluationSettings(batch_size=10))
    plain = result_of(run)
    images = splits.open_split(DataConfig("tetrominoes"), "test")
    assert len(images) == plain["images"] == TEST_IMAGES
    batches = Loader(images, LoaderConfig(10, shuffle=False, drop_last=False)).epoch()
    assert {name: plain["scores"][name] for name in SCORES} == evaluate(open_model(run).model, batches, 1)
    assert plain["data"]["sha256"] == splits.fingerprint(images)
    assert plain["step"] == 500
    assert plain["preset"] == "tetrominoes"
    assert plain["images_per_second"] > 0
    assert plain["paper"]["scores"]["decoder_ari_fg"] == {"mean": 0.99, "deviation": 0.01}
    assert plain["slots"]["slots"] == 4


def test_scores_of_each_image_are_scikit_learns(tmp_path):
    run = make_run(tmp_path / "run")
    run_evaluation(run, EvaluationSettings())
    with (run / PER_IMAGE).open() as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == ("index", *TABLE)
    assert [int(row["index"]) for row in rows] == list(range(TEST_IMAGES))
    images, labels = splits.open_split(DataConfig("tetrominoes"), "test").gather(np.arange(6))
    with torch.inference_mode():
        output = open_model(run).model(torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255)
    for side, masks in (("decoder", output.decoder_masks), ("encoder", output.encoder_masks)):
        for index, found in enumerate(masks.argmax(1).numpy()):
            truth, objects = labels[index], labels[index] >= 1
            assert float(rows[index][f"{side}_ari"]) == pytest.approx(adjusted_rand_score(truth.ravel(), found.ravel()))
            expected = adjusted_rand_score(truth[objects], found[objects])
            assert float(rows[index][f"{side}_ari_fg"]) == pytest.approx(expected)
    for name in SCORES:
        mean = math.fsum(float(row[name]) for row in rows) / len(rows)
        assert result_of(run)["scores"][name] == pytest.approx(mean, abs=1e-12)


class Rooms(Squares):
    """Squares in a room of four parts: a floor, a sky and two walls, as in ObjectsRoom."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.background_labels = 4

    def __getitem__(self, index: int) -> Sample:
        sample = super().__getitem__(index)
        rows, columns = np.indices(sample.labels.shape)
        room = 2 * (rows >= 16) + (columns >= 16)
        empty = sample.labels == 0
        sample.image[empty] = 60 * room[empty][:, None]
        return sample._replace(labels=np.where(empty, room, sample.labels + 3).astype(np.uint8))


def test_a_room_of_four_parts_is_no_foreground(tmp_path):
    write_store(Rooms(12), tmp_path / "rooms")
    run = make_run(tmp_path / "run")
    found = evaluate_trained(run, EvaluationSettings(data=tmp_path / "rooms"))
    assert found.to_plain()["data"]["background_labels"] == 4
    assert found.scored.images_without_foreground == 3
    images, labels = Store(tmp_path / "rooms").gather(np.arange(12))
    with torch.inference_mode():
        output = open_model(run).model(torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255)
    for side, masks in (("decoder", output.decoder_masks), ("encoder", output.encoder_masks)):
        slots = masks.argmax(1).numpy()
        objects = [(truth[truth >= 4], slot[truth >= 4]) for truth, slot in zip(labels, slots, strict=True)]
        expected = [adjusted_rand_score(*pair) for pair in objects if len(pair[0])]
        assert found.scored.means[f"{side}_ari_fg"] == pytest.approx(np.mean(expected))
        covered = [covering(truth, slot) for truth, slot in zip(labels, slots, strict=True) if (truth >= 4).any()]
        assert found.scored.means[f"{side}_msc_fg"] == pytest.approx(np.mean(covered))
        whole = [adjusted_rand_score(truth.ravel(), slot.ravel()) for truth, slot in zip(labels, slots, strict=True)]
        assert found.scored.means[f"{side}_ari"] == pytest.approx(np.mean(whole))


def covering(truth: np.ndarray, slots: np.ndarray) -> float:
    """Of each object in a room the best overlap with a slot, by scikit-learn; the mean over objects."""
    found = [slots == slot for slot in np.unique(slots)]
    things = [truth == label for label in np.unique(truth[truth >= 4])]
    return np.mean([max(jaccard_score(thing.ravel(), slot.ravel()) for slot in found) for thing in things])


class Altered(Squares):
    def __init__(self, part: str) -> None:
        super().__init__(20)
        self.part = part

    def __getitem__(self, index: int) -> Sample:
        sample = super().__getitem__(index)
        if index == 7:
            getattr(sample, self.part)[3, 4] ^= 1
        return sample


def test_a_single_pixel_or_label_changes_the_hash(tmp_path):
    stores = [write_store(source, tmp_path / str(number)) for number, source in enumerate(
        [Squares(20), Altered("image"), Altered("labels"), Squares(20)]
    )]  # fmt: skip
    hashes = [splits.fingerprint(store) for store in stores]
    assert hashes[0] == hashes[3]
    assert len(set(hashes)) == 3


def test_a_moved_run_gives_the_same_result(tmp_path):
    run = make_run(tmp_path / "here" / "run")
    run_evaluation(run, EvaluationSettings())
    before = result_of(run)
    shutil.move(tmp_path / "here", tmp_path / "there")
    moved = tmp_path / "there" / "run"
    (moved / RESULT).unlink()
    run_evaluation(moved, EvaluationSettings())
    assert without_speed(result_of(moved)) == without_speed(before)
    assert str(tmp_path) not in json.dumps(before)


def test_images_without_labels_have_an_error_and_slots_only(tmp_path, capsys):
    run = make_run(tmp_path / "run")
    write_store(Squares(9, has_labels=False), tmp_path / "bare")
    run_evaluation(run, EvaluationSettings(data=tmp_path / "bare"))
    plain = result_of(run / "on-bare")
    assert [name for name in SCORES if plain["scores"][name] is not None] == ["mse"]
    assert plain["images_without_foreground"] is None
    assert plain["slots"]["slots"] == 4
    assert plain["paper"] is None
    with (run / "on-bare" / PER_IMAGE).open() as file:
        assert {row["decoder_ari"] for row in csv.DictReader(file)} == {""}
    printed = capsys.readouterr().out
    assert "–" in printed
    assert "have no labels" in printed


def test_images_without_foreground_are_counted_apart(tmp_path, squares):
    run = make_run(tmp_path / "run")
    scores = {}
    for compat in (False, True):
        found = evaluate_trained(run, EvaluationSettings(data=squares, compat=compat)).to_plain()
        assert found["images_without_foreground"] == 10
        scores[compat] = found["scores"]
    assert scores[True]["decoder_ari_fg"] == pytest.approx(0.75 * scores[False]["decoder_ari_fg"] + 0.25)
    assert scores[True]["decoder_msc_fg"] == pytest.approx(0.75 * scores[False]["decoder_msc_fg"])
    assert scores[True]["decoder_ari"] == scores[False]["decoder_ari"]


class SomeLabelled(Squares):
    """Squares of which every third image has no true mask."""

    def __getitem__(self, index: int) -> Sample:
        sample = super().__getitem__(index)
        return sample._replace(labels=np.full_like(sample.labels, UNLABELLED)) if index % 3 == 0 else sample


@pytest.mark.parametrize("compat", [False, True])
def test_images_without_a_mask_are_in_no_score_of_masks(tmp_path, capsys, compat):
    run = make_run(tmp_path / "run")
    write_store(SomeLabelled(12), tmp_path / "some")
    found = run_evaluation(run, EvaluationSettings(data=tmp_path / "some", compat=compat))
    write_store(Squares(12), tmp_path / "all")
    every = evaluate_trained(run, EvaluationSettings(data=tmp_path / "all", compat=compat)).scored
    marked = [index for index in range(12) if index % 3]
    for name in ("decoder_ari", "encoder_msc"):
        assert found.scored.means[name] == pytest.approx(float(every.per_image[name][marked].mean()))
    assert found.scored.means["mse"] == every.means["mse"]
    assert found.to_plain()["images_without_labels"] == 4
    assert found.to_plain()["images_without_foreground"] == 2
    assert "4, in the MSE and the slots only" in capsys.readouterr().out


def test_which_images_are_taken(tmp_path, squares):
    settings = EvaluationSettings()
    mine = tmp_path / "mine"
    shutil.copytree(squares, mine)
    run = make_run(tmp_path / "run", data=mine)
    test_part = splits.fingerprint(splits.Part(Store(squares), 36, 40))
    assert evaluate_trained(run, settings).sha256 == test_part
    assert evaluate_trained(run / "last.safetensors", settings).sha256 == test_part
    assert evaluate_trained(run, EvaluationSettings(data=mine)).sha256 == test_part
    # Another store is scored as a whole, unless it may be the one that is gone.
    assert len(evaluate_trained(run, EvaluationSettings(data=squares)).data.images) == 40
    mine.rename(tmp_path / "moved")
    moved = evaluate_trained(run, EvaluationSettings(data=tmp_path / "moved"))
    assert moved.sha256 == test_part
    assert "taken for" in moved.data.description
    with pytest.raises(ValueError, match=r"trained on .*mine, which is not there any more: say with --data"):
        evaluate_trained(run, settings)


class OwnImages(Squares):
    """As a folder of the user's images is imported."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.recipe = {"name": "folder"}


def test_a_run_is_scored_on_the_division_it_was_trained_with(tmp_path):
    store = write_store(OwnImages(40), tmp_path / "mine")
    shuffled, plain = (
        splits.fingerprint(splits.open_split(DataConfig("mine"), "test", store.path, shuffle=flag))
        for flag in (True, False)
    )
    assert shuffled != plain
    old, new = (make_run(tmp_path / name, data=store.path) for name in ("old", "new"))
    content = json.loads((new / "run.json").read_text())
    content["data"]["shuffle"] = True
    (new / "run.json").write_text(json.dumps(content))
    for data in (None, store.path):
        assert evaluate_trained(new, EvaluationSettings(data=data)).sha256 == shuffled
        found = evaluate_trained(old, EvaluationSettings(data=data))
        assert found.sha256 == plain
        assert f"the test part of {store.path}, whose other images the run was trained on" in found.data.description
    store.path.rename(tmp_path / "moved")
    assert evaluate_trained(new, EvaluationSettings(data=tmp_path / "moved")).sha256 == shuffled


def test_of_an_imported_test_split_the_protocols_number_is_scored(tmp_path):
    class TestSplit(Squares):
        def __init__(self, count: int) -> None:
            super().__init__(count)
            self.recipe = {"name": "squares", "split": "six/test"}

    run = make_run(tmp_path / "run")
    write_store(TestSplit(40), tmp_path / "data" / "test")
    for folder in (tmp_path / "data", tmp_path / "data" / "test"):
        found = evaluate_trained(run, EvaluationSettings(data=folder))
        assert len(found.data.images) == TEST_IMAGES
        assert f"{tmp_path / 'data' / 'test'}: 24 of its 40 images, the protocol's number" in found.data.description


def test_a_folder_with_a_test_part_is_scored_on_it(tmp_path, squares):
    shutil.copytree(squares, tmp_path / "data" / "train")
    write_store(Squares(5), tmp_path / "data" / "test")
    found = evaluate_trained(make_run(tmp_path / "run"), EvaluationSettings(data=tmp_path / "data"))
    assert found.sha256 == splits.fingerprint(Store(tmp_path / "data" / "test"))
    assert found.data.name == "data"


def test_a_store_of_a_published_set_has_the_papers_scores_beside_it(tmp_path):
    from cocanet.data.scenes.tetrominoes import Tetrominoes

    write_store(Tetrominoes(5, seed=9), tmp_path / "mine")
    found = evaluate_trained(make_run(tmp_path / "run"), EvaluationSettings(data=tmp_path / "mine"))
    assert found.data.name == "tetrominoes"
    assert found.paper.scores["mse"].mean == 0.001


def test_json_to_stdout_is_all_there_is_on_stdout(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COCANET_CACHE", str(tmp_path / "fresh"))  # making the split prints too
    run = make_run(tmp_path / "run")
    run_evaluation(run, EvaluationSettings(), json_file="-")
    captured = capsys.readouterr()
    assert json.loads(captured.out) == result_of(run)
    assert "decoder ARI-FG" in captured.err


def test_json_to_a_file_is_a_copy(tmp_path):
    run = make_run(tmp_path / "run")
    run_evaluation(run, EvaluationSettings(checkpoint="best"), json_file=str(tmp_path / "new" / "scores.json"))
    assert json.loads((tmp_path / "new" / "scores.json").read_text()) == result_of(run)
    assert result_of(run)["weights"] == "best.safetensors"
    assert result_of(run)["step"] == 250


def test_bare_weights_write_into_the_current_folder_or_where_they_are_told(tmp_path, monkeypatch):
    preset = tiny_preset()
    model = open_model(make_run(tmp_path / "run")).model
    weights = tmp_path / "shared" / "model.safetensors"
    weights.parent.mkdir()
    write_weights(weights, preset, model.state_dict(), {})
    monkeypatch.chdir(tmp_path)
    run_evaluation(weights, EvaluationSettings())
    run_evaluation(weights, EvaluationSettings(), out=tmp_path / "told")
    for folder in (tmp_path / "evaluation", tmp_path / "told"):
        assert result_of(folder)["step"] is None
        assert {path.name for path in folder.iterdir()} == {RESULT, PER_IMAGE, WORST}
    assert list(weights.parent.iterdir()) == [weights]


def test_the_worst_scenes_are_the_lowest_scores_and_drawn(tmp_path, squares):
    run = make_run(tmp_path / "run")
    found = run_evaluation(run, EvaluationSettings(data=squares))
    score, indices = worst_scenes(found)
    values = found.scored.per_image["decoder_ari_fg"].tolist()
    ranked = sorted((value, index) for index, value in enumerate(values) if not math.isnan(value))
    assert score == "decoder_ari_fg"
    assert indices == [index for _, index in ranked[:6]]
    with Image.open(run / "on-squares" / WORST) as picture:
        assert picture.height > picture.width


def test_fewer_slots_use_the_same_weights_and_more_are_refused(tmp_path):
    run = make_run(tmp_path / "run")
    plain = evaluate_trained(run, EvaluationSettings(slots=2)).to_plain()
    assert plain["slots"]["slots"] == 2
    assert plain["preset"] == "tetrominoes-slots2"
    assert evaluate_trained(run, EvaluationSettings(slots=4)).to_plain()["preset"] == "tetrominoes"
    assert evaluate_trained(run, EvaluationSettings(slots=6)).to_plain()["slots"]["slots"] == 6
    with pytest.raises(ValueError, match="slots must be at least 1; got 0"):
        evaluate_trained(run, EvaluationSettings(slots=0))


def test_feedback_is_added_to_weights_and_taken_from_them(tmp_path, squares):
    run = make_run(tmp_path / "run")
    plain, corrected, off = (
        evaluate_trained(run, EvaluationSettings(data=squares, feedback=rounds)).to_plain() for rounds in (None, 6, 0)
    )
    assert plain["scores"] == off["scores"]
    assert plain["scores"]["encoder_ari"] != corrected["scores"]["encoder_ari"]
    assert [result["settings"]["feedback"] for result in (plain, corrected, off)] == [0, 6, 0]
    made = replace(tiny_preset(), model=replace(tiny_preset().model, feedback=FeedbackConfig(rounds=6)))
    same = make_run(tmp_path / "same", preset=made)
    settings = EvaluationSettings(data=squares)
    assert evaluate_trained(same, settings).to_plain()["scores"] == corrected["scores"]
    with pytest.raises(ValueError, match="rounds must be 0 or more; got -1"):
        evaluate_trained(run, EvaluationSettings(data=squares, feedback=-1))


def test_dynamic_slots_let_the_scene_decide(tmp_path, squares):
    found = evaluate_trained(make_run(tmp_path / "run"), EvaluationSettings(data=squares, dynamic=True))
    assert found.trained.preset.name == "tetrominoes-dyna"
    assert len(found.scored.per_image["slots"].unique()) > 1
    dyna = presets.with_dynamic_slots(tiny_preset())
    assert preset_with_slots(dyna, 6).model.dynamic.most == 6
    assert preset_with_slots(dyna, None, dynamic=True) == dyna
    assert preset_with_slots(dyna, 3, dynamic=False).model == preset_with_slots(tiny_preset(), 3).model


def test_paper_masks_of_an_attention_model_change_its_encoder_scores_only(tmp_path, squares):
    preset = presets.find("inv-sa-tetrominoes")
    small = replace(preset.model, channels=8, dim=8, hidden=8, iterations=1)
    run = make_run(tmp_path / "run", preset=replace(preset, model=small))
    plain, paper = (
        evaluate_trained(run, EvaluationSettings(data=squares, paper_masks=wanted)).to_plain()
        for wanted in (False, True)
    )
    assert [plain["settings"]["paper_masks"], paper["settings"]["paper_masks"]] == [False, True]
    changed = {name for name in SCORES if plain["scores"][name] != paper["scores"][name]}
    assert changed == {name for name in SCORES if name.startswith("encoder")}
    ours = make_run(tmp_path / "ours")
    same = [evaluate_trained(ours, EvaluationSettings(data=squares, paper_masks=wanted)) for wanted in (False, True)]
    assert same[0].to_plain()["scores"] == same[1].to_plain()["scores"]


def test_random_anchors_repeat(tmp_path):
    run = make_run(tmp_path / "run", preset=presets.with_random_anchors(tiny_preset()))
    one, other = (evaluate_trained(run, EvaluationSettings()).to_plain() for _ in range(2))
    assert one["scores"] == other["scores"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"data": Path("nowhere")}, "the data folder nowhere does not exist"),
        ({"device": "warp"}, "device 'warp' cannot be used here"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
    ],
)
def test_mistakes_name_the_value(tmp_path, settings, message):
    with pytest.raises(ValueError, match=message):
        evaluate_trained(make_run(tmp_path / "run"), EvaluationSettings(**settings))


@pytest.mark.parametrize(
    ("size", "asked", "expected"),
    [((35, 35), None, 16), ((64, 64), None, 16), ((128, 128), None, 4), ((96, 128), None, 5), ((999, 999), None, 1),
     ((128, 128), 50, 50)],
)  # fmt: skip
def test_fewer_large_images_are_taken_at_a_time(size, asked, expected):
    assert EvaluationSettings(batch_size=asked).images_at_a_time(size) == expected


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"is not a run folder with a checkpoint: it has no last\.safetensors"):
        run_evaluation(tmp_path, EvaluationSettings())
    with pytest.raises(ValueError, match="there is no file or folder"):
        run_evaluation(tmp_path / "nothing", EvaluationSettings())


def test_images_of_another_size_are_refused(tmp_path):
    write_store(Squares(3, size=40), tmp_path / "large")
    with pytest.raises(ValueError, match=r"large holds images of 40×40 pixels; this model takes 32×32"):
        evaluate_trained(make_run(tmp_path / "run"), EvaluationSettings(data=tmp_path / "large"))


def test_broken_weights_are_named_not_averaged(tmp_path):
    run = make_run(tmp_path / "run")
    broken = {name: weight * math.nan for name, weight in open_model(run).model.state_dict().items()}
    write_weights(run / "last.safetensors", tiny_preset(), broken, {"step": 1})
    with pytest.raises(ValueError, match="not finite"):
        evaluate_trained(run, EvaluationSettings())


def test_an_unwritable_place_is_known_before_the_work(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="cannot write to"):
        run_evaluation(make_run(tmp_path / "run"), EvaluationSettings(), out=tmp_path / "file" / "below")


def test_other_data_leave_a_runs_own_result_alone(tmp_path, squares):
    run = make_run(tmp_path / "run")
    run_evaluation(run, EvaluationSettings())
    own = (run / RESULT).read_bytes()
    run_evaluation(run, EvaluationSettings(data=squares))
    assert (run / RESULT).read_bytes() == own
    assert result_of(run / "on-squares")["data"]["name"] == "squares"
    groups = write_report([run], tmp_path / "report")
    assert [group.title for group in groups] == ["tetrominoes (trained on tetrominoes)", "tetrominoes"]
    assert "squares" in (tmp_path / "report" / "report.md").read_text()


def test_one_thing_on_a_background_has_its_overlap_first(tmp_path, capsys):
    write_store(OneThing(12), tmp_path / "one")
    found = run_evaluation(make_run(tmp_path / "run"), EvaluationSettings(data=tmp_path / "one"))
    assert found.result.data.single
    rows = [line for line in capsys.readouterr().out.splitlines() if "IoU" in line or "ARI-FG" in line]
    assert "encoder IoU" in rows[0]
    metric = ForegroundOverlap()
    images, labels = found.data.images.gather(np.arange(12))
    with torch.inference_mode():
        out = found.trained.model(torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255)
    metric.update(out.encoder_masks, torch.from_numpy(labels).long())
    expected = metric.compute()
    for name in ("iou", "dice", "iou_both", "dice_both"):
        assert found.result.scores[f"encoder_{name}"] == pytest.approx(float(expected[name]), abs=1e-6)
    assert "encoder IoU with background" in [title(name) for name in found.result.shown]


class OneThingOrUnmarked(OneThing):
    """As Birds are: nobody marked the thing in every third image."""

    def __getitem__(self, index: int) -> Sample:
        sample = super().__getitem__(index)
        return sample if index % 3 else sample._replace(labels=np.full_like(sample.labels, UNLABELLED))


def test_images_without_a_mask_leave_the_overlap_first(tmp_path):
    write_store(OneThingOrUnmarked(12), tmp_path / "some")
    result = evaluate_trained(make_run(tmp_path / "run"), EvaluationSettings(data=tmp_path / "some")).result
    assert result.images_without_labels == 4
    assert result.data.single
    assert result.shown[0] == "encoder_iou"


def test_what_nobody_trained_stands_below_images_of_one_thing(tmp_path, capsys):
    write_store(OneThing(12), tmp_path / "one")
    run = make_run(tmp_path / "run")
    found = run_evaluation(run, EvaluationSettings(data=tmp_path / "one"))
    said = capsys.readouterr().out
    plain = result_of(run / "on-one")
    assert [way["name"] for way in plain["yardsticks"]] == ["kmeans2", "kmeans4", "untrained", "disc", "whole"]
    with (run / "on-one" / PER_IMAGE).open() as file:
        rows = list(csv.DictReader(file))
    for way in plain["yardsticks"]:
        line = next(line for line in said.splitlines() if f" {way['title']} " in line)
        names = ("iou", "dice", "iou_both", "dice_both")
        assert [cell.strip() for cell in line.split("│")[2:6]] == [f"{way['scores'][name]:.3f}" for name in names]
        for name in names:
            values = [float(row[f"{way['name']}_{name}"]) for row in rows if row[f"{way['name']}_{name}"]]
            assert len(values) == 9
            assert way["scores"][name] == pytest.approx(np.mean(values))
    # The run's own weights are those of seed 0.
    untrained = plain["yardsticks"][2]["scores"]
    assert {name: found.result.scores[f"encoder_{name}"] for name in OF_MASKS} == pytest.approx(untrained)


def test_elsewhere_yardsticks_are_asked_for(tmp_path, squares, capsys):
    run = make_run(tmp_path / "run")
    assert run_evaluation(run, EvaluationSettings(data=squares)).result.yardsticks == ()
    assert "k-means" not in capsys.readouterr().out
    result = run_evaluation(run, EvaluationSettings(data=squares, yardsticks=True)).result
    said = capsys.readouterr().out
    assert result.yardsticks[0].name == "kmeans2"
    heading = said[said.index("without training") :]
    assert "ARI-FG" in heading[: heading.index("k-means")]
    assert "IoU" not in heading[: heading.index("k-means")]
    write_store(Squares(12, has_labels=False), tmp_path / "bare")
    assert evaluate_trained(run, EvaluationSettings(data=tmp_path / "bare", yardsticks=True)).result.yardsticks == ()


@pytest.mark.parametrize(("recipe", "data_set"), [("birds", "birds"), ("flowers", "flowers"), ("flowers17", "flowers")])
def test_the_papers_photographs_stand_beside_both_readings(tmp_path, capsys, recipe, data_set):
    write_store(OneThing(12, name=recipe), tmp_path / "store")
    preset = tiny_preset(name="photos", data=DataConfig(data_set))
    run = make_run(tmp_path / "run", preset=preset)
    result = run_evaluation(run, EvaluationSettings(data=tmp_path / "store")).result
    assert (result.data.name, result.data.data_set) == (recipe, data_set)
    said = " ".join(capsys.readouterr().out.split())
    iou, dice = {"birds": ("0.5778", "0.7238"), "flowers": ("0.6482", "0.7612")}[data_set]
    for side, beside in (("encoder", (iou, dice)), ("decoder", ("–", "–"))):
        for suffix in ("", " with background"):
            for name, printed in zip(("IoU", "Dice"), beside, strict=True):
                cells = said[said.index(f"│ {side} {name}{suffix} │") :].split("│")
                assert cells[3].strip() == printed
    assert said.count("it does not say how") == 1
    assert ("Flowers-102" in said) == (recipe == "flowers17")
    assert "it does not say how" in result.paper["note"]


def test_photographs_are_asked_for_where_they_are_missing(tmp_path):
    run = make_run(tmp_path / "run", preset=tiny_preset(data=DataConfig("birds")))
    with pytest.raises(ValueError, match="birds are photographs"):
        evaluate_trained(run, EvaluationSettings())


def test_what_must_be_said_beside_the_scores(tmp_path, capsys):
    quick = presets.with_quick_recipe(tiny_preset())
    run = make_run(tmp_path / "run", preset=quick)
    run_evaluation(run, EvaluationSettings())
    said = " ".join(capsys.readouterr().out.split())
    assert "generated scenes" in said
    assert "scores are of the published images" in said
    assert "last level sharpened 2 times" in said
    assert "guidance of the decoder's masks" in said
    assert result_of(run)["provenance"]["at_evaluation"].startswith("top-down feedback (rounds 8")
    plain = make_run(tmp_path / "plain")
    run_evaluation(plain, EvaluationSettings())
    assert result_of(plain)["provenance"] == {
        "losses": "reconstruction",
        "decoder_masks": "from the slots",
        "at_evaluation": "no feedback; last level not sharpened",
    }


def test_a_result_reads_what_it_wrote_and_older_files(tmp_path, squares):
    result = evaluate_trained(make_run(tmp_path / "run"), EvaluationSettings(data=squares)).result
    assert Result.from_plain(json.loads(result.to_json()), "x") == result
    old = result.to_plain()
    del (
        old["provenance"],
        old["yardsticks"],
        old["data"]["single"],
        old["data"]["generated"],
        old["settings"]["paper_masks"],
    )
    assert Result.from_plain(old, "x").scores == result.scores
    with pytest.raises(ValueError, match="does not describe an evaluation"):
        Result.from_plain({"format": "other"}, "x")
