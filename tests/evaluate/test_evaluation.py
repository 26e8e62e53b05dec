"""`coca evaluate`: its scores, which images it takes, the files it writes, and what it refuses."""

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
from cocanet.config import DataConfig
from cocanet.data import splits
from cocanet.data.generators.tetrominoes import Tetrominoes
from cocanet.data.loader import Loader, LoaderConfig
from cocanet.data.sample import Sample
from cocanet.data.store import Store
from cocanet.data.store_writer import write_store
from cocanet.evaluate.evaluation import FILE, PER_IMAGE, WORST, Evaluation, FullEvaluation, read_evaluation
from cocanet.evaluate.overrides import EvaluationSettings
from cocanet.evaluate.protocol import evaluate
from cocanet.evaluate.report import write_report
from cocanet.evaluate.scored_images import ScoredImages, choose_images
from cocanet.evaluate.trained import evaluate_trained
from cocanet.io.run_folder import trained_on
from cocanet.io.trained import open_model
from cocanet.io.weights import write_weights
from cocanet.labels import UNLABELLED
from cocanet.metrics.segmentation import ForegroundOverlap
from cocanet.metrics.table import DISCOVERIES, OF_MASKS, SCORES, TABLE
from tests.small_runs import OneObject, Squares, make_run, tiny_preset

TEST_IMAGES = 24
OPTIONAL = ("felzenszwalb", "grabcut")
"""Baselines that need an extra."""


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def small_splits(cache, monkeypatch):
    monkeypatch.setenv("COCANET_CACHE", str(cache))
    monkeypatch.setattr(splits, "TEST_IMAGES", TEST_IMAGES)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A run that no test writes to."""
    return make_run(tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture(scope="module")
def squares(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "squares"
    write_store(Squares(40), folder)
    return folder


@pytest.fixture(scope="module")
def on_squares(run, squares) -> FullEvaluation:
    return evaluate_trained(run, EvaluationSettings(data=squares))


def segments(run: Path, images: np.ndarray) -> dict[str, np.ndarray]:
    """Hard masks of both sides, by a plain call of the model."""
    with torch.inference_mode():
        output = open_model(run).model(torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255)
    return {side: getattr(output, f"{side}_masks").argmax(1).numpy() for side in ("decoder", "encoder")}


def without_speed(evaluation: Evaluation) -> dict:
    return {name: value for name, value in evaluation.to_dict().items() if name != "speed"}


def test_scores_are_those_of_the_protocol_on_the_frozen_split(run):
    found = evaluate_trained(run, EvaluationSettings(batch_size=10))
    images = splits.open_split(DataConfig("tetrominoes"), "test")
    assert len(images) == found.images == TEST_IMAGES
    batches = Loader(images, LoaderConfig(10, shuffle=False, drop_last=False)).epoch()
    assert {name: found.scores[name] for name in SCORES} == evaluate(open_model(run).model, batches, 1)
    assert found.data.sha256 == splits.fingerprint(images)
    assert (found.preset, found.step, found.slots["slots"]) == ("tetrominoes", 500, 4)
    assert found.speed.images_per_second > 0
    assert str(found.paper.scores["decoder_ari_fg"]) == "0.99 ± 0.01"
    assert not found.data.elsewhere


def test_the_first_images_of_a_split_are_scored_alone(run, squares, on_squares):
    found = evaluate_trained(run, EvaluationSettings(data=squares, first=3))
    assert found.images == 3
    assert found.data.description.startswith("the first 3 of ")
    assert found.data.sha256 != on_squares.data.sha256
    for name, every in on_squares.per_image.items():
        np.testing.assert_allclose(found.per_image[name], every[:3], atol=1e-6)
    with pytest.raises(ValueError, match="--first is 0; expected the number of images"):
        EvaluationSettings(first=0)


def test_files_hold_the_scores_of_every_image_and_the_worst(run, tmp_path):
    found = run_evaluation(run, EvaluationSettings(), out=tmp_path, json_file=str(tmp_path / "new" / "copy.json"))
    assert (tmp_path / "new" / "copy.json").read_text() == (tmp_path / FILE).read_text()
    with (tmp_path / PER_IMAGE).open() as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == ("index", *TABLE)
    assert [int(row["index"]) for row in rows] == list(range(TEST_IMAGES))
    images, labels = splits.open_split(DataConfig("tetrominoes"), "test").gather(np.arange(6))
    for side, masks in segments(run, images).items():
        for index, slots in enumerate(masks):
            truth, objects = labels[index], labels[index] >= 1
            assert float(rows[index][f"{side}_ari"]) == pytest.approx(adjusted_rand_score(truth.ravel(), slots.ravel()))
            expected = adjusted_rand_score(truth[objects], slots[objects])
            assert float(rows[index][f"{side}_ari_fg"]) == pytest.approx(expected)
    for name in SCORES:
        mean = math.fsum(float(row[name]) for row in rows) / len(rows)
        assert found.scores[name] == pytest.approx(mean, abs=1e-12)
    ranked = sorted((float(row["decoder_ari_fg"]), int(row["index"])) for row in rows)
    assert found.worst.indices == [index for _, index in ranked[:6]]
    with Image.open(tmp_path / WORST) as picture:
        assert picture.height > picture.width


class FourPartBackground(Squares):
    """Squares before a background of four parts, as in ObjectsRoom."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.background_labels = 4

    def __getitem__(self, index: int) -> Sample:
        sample = super().__getitem__(index)
        rows, columns = np.indices(sample.labels.shape)
        part = 2 * (rows >= 16) + (columns >= 16)
        empty = sample.labels == 0
        sample.image[empty] = 60 * part[empty][:, None]
        return sample._replace(labels=np.where(empty, part, sample.labels + 3).astype(np.uint8))


def test_a_background_of_four_parts_is_no_foreground(run, tmp_path):
    write_store(FourPartBackground(12), tmp_path / "rooms")
    found = evaluate_trained(run, EvaluationSettings(data=tmp_path / "rooms"))
    assert found.data.background_labels == 4
    assert found.images_without_foreground == 3
    images, labels = Store(tmp_path / "rooms").gather(np.arange(12))
    for side, slots in segments(run, images).items():
        pairs = list(zip(labels, slots, strict=True))
        objects = [(truth[truth >= 4], slot[truth >= 4]) for truth, slot in pairs]
        expected = [adjusted_rand_score(*pair) for pair in objects if len(pair[0])]
        assert found.scores[f"{side}_ari_fg"] == pytest.approx(np.mean(expected))
        covered = [covering(truth, slot) for truth, slot in pairs if (truth >= 4).any()]
        assert found.scores[f"{side}_msc_fg"] == pytest.approx(np.mean(covered))
        whole = [adjusted_rand_score(truth.ravel(), slot.ravel()) for truth, slot in pairs]
        assert found.scores[f"{side}_ari"] == pytest.approx(np.mean(whole))


def covering(truth: np.ndarray, slots: np.ndarray) -> float:
    """Mean over objects of the best IoU of any slot, by scikit-learn."""
    found = [slots == slot for slot in np.unique(slots)]
    objects = [truth == label for label in np.unique(truth[truth >= 4])]
    return np.mean([max(jaccard_score(mask.ravel(), slot.ravel()) for slot in found) for mask in objects])


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
    sources = [Squares(20), Altered("image"), Altered("labels"), Squares(20)]
    stores = [write_store(source, tmp_path / str(number)) for number, source in enumerate(sources)]
    hashes = [splits.fingerprint(store) for store in stores]
    assert hashes[0] == hashes[3]
    assert len(set(hashes)) == 3


def test_a_moved_run_gives_the_same_evaluation(tmp_path):
    before = evaluate_trained(make_run(tmp_path / "here" / "run"), EvaluationSettings())
    shutil.move(tmp_path / "here", tmp_path / "there")
    assert without_speed(evaluate_trained(tmp_path / "there" / "run", EvaluationSettings())) == without_speed(before)
    assert str(tmp_path) not in before.to_json()


def test_images_without_labels_have_only_an_mse_and_slots(tmp_path, capsys):
    run = make_run(tmp_path / "run")
    write_store(Squares(9, has_labels=False), tmp_path / "bare")
    run_evaluation(run, EvaluationSettings(data=tmp_path / "bare", baselines=True))
    found = read_evaluation(run / "on-bare")
    assert [name for name in SCORES if found.scores[name] is not None] == ["mse"]
    assert found.images_without_foreground is None
    assert found.slots["slots"] == 4
    assert found.paper is None
    assert found.baselines == ()
    with (run / "on-bare" / PER_IMAGE).open() as file:
        assert {row["decoder_ari"] for row in csv.DictReader(file)} == {""}
    printed = capsys.readouterr().out
    assert "–" in printed
    assert "have no labels" in printed


class Published(Squares):
    """As a store of published files."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.recipe = {"name": "clevrtex", "split": None}


def test_empty_foreground_counts_as_in_the_paper_on_published_images(run, squares, on_squares, tmp_path):
    write_store(Published(40), tmp_path / "published")
    cases = {
        ("own", True): EvaluationSettings(data=squares, paper_empty_foreground=True),
        ("published", True): EvaluationSettings(data=tmp_path / "published"),
        ("published", False): EvaluationSettings(data=tmp_path / "published", skip_empty_foreground=True),
    }
    plain = on_squares.scores
    assert not on_squares.overrides.paper_empty_foreground
    for (source, by_paper), settings in cases.items():
        found = evaluate_trained(run, settings)
        assert (found.data.source, found.overrides.paper_empty_foreground) == (source, by_paper)
        assert found.images_without_foreground == 10
        assert bool(found.off_protocol) == ((source, by_paper) != ("published", True))
        ari, covering = (found.scores[f"decoder_{name}_fg"] for name in ("ari", "msc"))
        if by_paper:
            assert ari == pytest.approx(0.75 * plain["decoder_ari_fg"] + 0.25)
            assert covering == pytest.approx(0.75 * plain["decoder_msc_fg"])
        else:
            assert (ari, covering) == (plain["decoder_ari_fg"], plain["decoder_msc_fg"])
        assert found.scores["decoder_ari"] == plain["decoder_ari"]
        assert found.scores["decoder_iou"] == plain["decoder_iou"]
    with pytest.raises(ValueError, match="exclude each other"):
        EvaluationSettings(paper_empty_foreground=True, skip_empty_foreground=True)


class SomeLabelled(Squares):
    """Every third image has no labels."""

    def __getitem__(self, index: int) -> Sample:
        sample = super().__getitem__(index)
        return sample._replace(labels=np.full_like(sample.labels, UNLABELLED)) if index % 3 == 0 else sample


def test_images_without_a_mask_are_in_no_score_of_masks(run, on_squares, tmp_path):
    write_store(SomeLabelled(40), tmp_path / "some")
    labelled = [index for index in range(40) if index % 3]
    for by_paper in (False, True):
        settings = EvaluationSettings(data=tmp_path / "some", paper_empty_foreground=by_paper)
        found = evaluate_trained(run, settings)
        for name in ("decoder_ari", "encoder_msc"):
            expected = float(on_squares.per_image[name][labelled].mean())
            assert found.scores[name] == pytest.approx(expected)
        assert found.scores["mse"] == on_squares.scores["mse"]
        assert (found.images_without_labels, found.images_without_foreground) == (14, 6)


def chosen(run: Path, data: Path | None = None) -> ScoredImages:
    return choose_images(tiny_preset(), trained_on(run), data)[1]


def test_which_images_are_taken(tmp_path, squares):
    mine = tmp_path / "mine"
    shutil.copytree(squares, mine)
    run = make_run(tmp_path / "run", data=mine)
    test_part = splits.fingerprint(splits.Part(Store(squares), 36, 40))
    for found in (chosen(run), chosen(run / "last.safetensors"), chosen(run, mine)):
        assert found.sha256 == test_part
        assert not found.elsewhere
    # Another store is scored as a whole, unless it may be the run's own, moved.
    other = chosen(run, squares)
    assert other.elsewhere
    assert other.description.endswith("40 images")
    mine.rename(tmp_path / "moved")
    moved = chosen(run, tmp_path / "moved")
    assert moved.sha256 == test_part
    assert "presumably" in moved.description
    with pytest.raises(ValueError, match=r"trained on .*mine, which does not exist any more: .* --data"):
        chosen(run)


class OwnImages(Squares):
    """As an imported folder of the user's images."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.recipe = {"name": "folder"}


def test_a_run_is_scored_on_the_test_part_of_what_it_was_trained_on(tmp_path):
    store = write_store(OwnImages(40), tmp_path / "mine")
    part = splits.fingerprint(splits.open_split(DataConfig("mine"), "test", store.path))
    run = make_run(tmp_path / "run", data=store.path)
    for data in (None, store.path):
        found = chosen(run, data)
        assert found.sha256 == part
        assert f"the test part of {store.path}, whose other images the run was trained on" in found.description
    store.path.rename(tmp_path / "moved")
    assert chosen(run, tmp_path / "moved").sha256 == part


def test_of_an_imported_test_split_the_protocols_number_is_scored(run, tmp_path):
    class TestSplit(Squares):
        def __init__(self, count: int) -> None:
            super().__init__(count)
            self.recipe = {"name": "squares", "split": "six/test"}

    write_store(TestSplit(40), tmp_path / "data" / "test")
    for folder in (tmp_path / "data", tmp_path / "data" / "test"):
        found = chosen(run, folder)
        assert f"{tmp_path / 'data' / 'test'}: 24 of its 40 images, the protocol's number" in found.description


def test_a_folder_with_a_test_part_is_scored_on_it(run, squares, tmp_path):
    shutil.copytree(squares, tmp_path / "data" / "train")
    write_store(Squares(5), tmp_path / "data" / "test")
    found = chosen(run, tmp_path / "data")
    assert found.sha256 == splits.fingerprint(Store(tmp_path / "data" / "test"))
    assert found.name == "data"


def test_generated_scenes_in_a_folder_have_the_papers_scores_beside_them(run, tmp_path):
    write_store(Tetrominoes(5, seed=9), tmp_path / "mine")
    found = evaluate_trained(run, EvaluationSettings(data=tmp_path / "mine"))
    assert (found.data.name, found.data.source) == ("tetrominoes", "generated")
    assert found.paper.scores["mse"].mean == 0.001


def test_json_to_stdout_is_all_there_is_on_stdout(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COCANET_CACHE", str(tmp_path / "fresh"))  # generating the split prints too
    run = make_run(tmp_path / "run")
    run_evaluation(run, EvaluationSettings(checkpoint="best"), json_file="-")
    captured = capsys.readouterr()
    assert captured.out == (run / FILE).read_text()
    assert "decoder ARI-FG" in captured.err
    assert (read_evaluation(run).weights, read_evaluation(run).step) == ("best.safetensors", 250)


def test_a_weights_file_writes_into_the_current_folder(run, tmp_path, monkeypatch):
    weights = tmp_path / "shared" / "model.safetensors"
    weights.parent.mkdir()
    write_weights(weights, tiny_preset(), open_model(run).model.state_dict(), {})
    monkeypatch.chdir(tmp_path)
    run_evaluation(weights, EvaluationSettings())
    assert read_evaluation(tmp_path / "evaluation").step is None
    assert {path.name for path in (tmp_path / "evaluation").iterdir()} == {FILE, PER_IMAGE, WORST}
    assert list(weights.parent.iterdir()) == [weights]


def test_the_number_of_slots_may_change(run, squares):
    few = evaluate_trained(run, EvaluationSettings(data=squares, slots=2))
    assert (few.slots["slots"], few.preset) == (2, "tetrominoes-slots2")
    assert evaluate_trained(run, EvaluationSettings(data=squares, slots=6)).slots["slots"] == 6
    dynamic = evaluate_trained(run, EvaluationSettings(data=squares, dynamic=True))
    assert dynamic.preset == "tetrominoes-dyna"
    assert len(dynamic.per_image["slots"].unique()) > 1
    with pytest.raises(ValueError, match="slots must be at least 1; got 0"):
        evaluate_trained(run, EvaluationSettings(slots=0))


def test_refinement_changes_encoder_masks_only_and_says_so(squares, on_squares, tmp_path, capsys):
    run = make_run(tmp_path / "run")
    found = run_evaluation(run, EvaluationSettings(data=squares, refine=True, baselines=True))
    changed = {name for name in SCORES if found.scores[name] != on_squares.scores[name]}
    assert changed == {name for name in SCORES if name.startswith("encoder")}
    assert found.off_protocol == ("refined",)
    assert found.provenance.masks == "encoder masks refined after the network"
    assert on_squares.provenance.masks == "masks as the network predicts them"
    # Run and baseline have the weights of seed 0, and both are refined.
    untrained = next(each for each in found.baselines if each.name == "untrained")
    assert untrained.title.endswith(", refined")
    assert {name: found.scores[f"encoder_{name}"] for name in OF_MASKS} == pytest.approx(untrained.scores)
    printed = capsys.readouterr().out
    assert "this model's encoder, refined" in printed
    assert "this model's decoder, refined" not in printed


def test_paper_masks_of_an_attention_model_change_its_encoder_scores_only(squares, tmp_path):
    preset = presets.find("slot-attention-tetrominoes")
    small = replace(preset.model, dim=8, hidden=8, iterations=1)
    run = make_run(tmp_path / "run", preset=replace(preset, model=small))
    plain, paper = (
        evaluate_trained(run, EvaluationSettings(data=squares, paper_masks=wanted)) for wanted in (False, True)
    )
    assert [plain.overrides.paper_masks, paper.overrides.paper_masks] == [False, True]
    changed = {name for name in SCORES if plain.scores[name] != paper.scores[name]}
    assert changed == {name for name in SCORES if name.startswith("encoder")}


def test_random_anchors_repeat(squares, tmp_path):
    run = make_run(tmp_path / "run", preset=presets.with_random_anchors(tiny_preset()))
    one, other = (evaluate_trained(run, EvaluationSettings(data=squares)) for _ in range(2))
    assert one.scores == other.scores


def test_mistakes_name_the_value(run, tmp_path):
    for settings, message in (
        ({"data": Path("nowhere")}, "the data folder nowhere does not exist"),
        ({"device": "warp"}, "device 'warp' cannot be used here"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
    ):
        with pytest.raises(ValueError, match=message):
            evaluate_trained(run, EvaluationSettings(**settings))
    with pytest.raises(ValueError, match=r"is not a run folder with a checkpoint: it has no last\.safetensors"):
        run_evaluation(tmp_path, EvaluationSettings())
    with pytest.raises(ValueError, match="there is no file or folder"):
        run_evaluation(tmp_path / "nothing", EvaluationSettings())
    write_store(Squares(3, size=40), tmp_path / "large")
    with pytest.raises(ValueError, match=r"large holds images of 40×40 pixels; this model takes 32×32"):
        evaluate_trained(run, EvaluationSettings(data=tmp_path / "large"))
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="cannot write to"):
        run_evaluation(run, EvaluationSettings(), out=tmp_path / "file" / "below")
    birds = make_run(tmp_path / "birds", preset=tiny_preset(data=DataConfig("birds")))
    with pytest.raises(ValueError, match="birds are photographs"):
        evaluate_trained(birds, EvaluationSettings())


def test_large_images_have_smaller_batches():
    for size, given, expected in (
        ((35, 35), None, 16), ((64, 64), None, 16), ((128, 128), None, 4),
        ((96, 128), None, 5), ((999, 999), None, 1), ((128, 128), 50, 50),
    ):  # fmt: skip
        assert EvaluationSettings(batch_size=given).images_at_a_time(size) == expected


def test_broken_weights_are_named_not_averaged(squares, tmp_path):
    run = make_run(tmp_path / "run")
    broken = {name: weight * math.nan for name, weight in open_model(run).model.state_dict().items()}
    write_weights(run / "last.safetensors", tiny_preset(), broken, {"step": 1})
    with pytest.raises(ValueError, match="not finite"):
        evaluate_trained(run, EvaluationSettings(data=squares))


def test_other_data_leave_a_runs_own_evaluation_alone(squares, tmp_path):
    run = make_run(tmp_path / "run")
    run_evaluation(run, EvaluationSettings())
    own = (run / FILE).read_bytes()
    run_evaluation(run, EvaluationSettings(data=squares))
    assert (run / FILE).read_bytes() == own
    assert read_evaluation(run / "on-squares").data.name == "squares"
    groups = write_report([run], tmp_path / "report")
    assert [group.title for group in groups] == ["tetrominoes (trained on tetrominoes)", "tetrominoes"]
    assert "squares" in (tmp_path / "report" / "report.md").read_text()


class OneObjectOrUnlabelled(OneObject):
    """As in Birds: every third image has no labels."""

    def __getitem__(self, index: int) -> Sample:
        sample = super().__getitem__(index)
        return sample if index % 3 else sample._replace(labels=np.full_like(sample.labels, UNLABELLED))


def test_images_of_one_object_have_overlaps_first_and_baselines(tmp_path, capsys):
    write_store(OneObjectOrUnlabelled(12), tmp_path / "one")
    run = make_run(tmp_path / "run")
    found = run_evaluation(run, EvaluationSettings(data=tmp_path / "one"))
    printed = capsys.readouterr().out
    assert found.data.single
    assert found.images_without_labels == 4
    assert found.shown[0] == "encoder_iou"
    # Every number stands once: those of masks beside the baselines', the others in the table of scores.
    assert printed.index(" IoU ") < printed.index("encoder ARI-FG")
    assert "encoder IoU" not in printed
    metric = ForegroundOverlap()
    images, labels = Store(tmp_path / "one").gather(np.arange(12))
    slots = torch.from_numpy(segments(run, images)["encoder"])
    metric.update(torch.nn.functional.one_hot(slots, 4).movedim(-1, 1).float(), torch.from_numpy(labels).long())
    expected, names = metric.compute(), ("iou", "dice", "iou_both", "dice_both")
    for name in names:
        assert found.scores[f"encoder_{name}"] == pytest.approx(float(expected[name]), abs=1e-6)
    always = [each.name for each in found.baselines if each.name not in OPTIONAL]
    assert always == ["kmeans2", "kmeans4", "untrained", "disc", "whole"]
    with (run / "on-one" / PER_IMAGE).open() as file:
        rows = list(csv.DictReader(file))
    for each in found.baselines:
        line = next(line for line in printed.splitlines() if f" {each.title} " in line)
        assert [cell.strip() for cell in line.split("│")[2:6]] == [f"{each.scores[name]:.3f}" for name in names]
        for name in names:
            values = [float(row[f"{each.name}_{name}"]) for row in rows if row[f"{each.name}_{name}"]]
            assert len(values) == 6
            assert each.scores[name] == pytest.approx(np.mean(values))


def test_scenes_have_baselines_on_request_and_no_central_disc(run, squares, on_squares, tmp_path, capsys):
    assert on_squares.baselines == ()
    found = run_evaluation(run, EvaluationSettings(data=squares, baselines=True), out=tmp_path)
    names = [each.name for each in found.baselines if each.name not in OPTIONAL]
    assert names == ["kmeans2", "kmeans4", "untrained", "whole"]
    printed = capsys.readouterr().out
    heading = printed[printed.index("non-learned") : printed.index("k-means")]
    assert "ARI-FG" in heading
    assert "IoU" not in heading


def test_the_papers_photographs_stand_beside_both_readings(run, tmp_path, capsys):
    for recipe, data_set in (("birds", "birds"), ("flowers17", "flowers")):
        write_store(OneObject(12, name=recipe), tmp_path / recipe)
        found = run_evaluation(run, EvaluationSettings(data=tmp_path / recipe), out=tmp_path / "out")
        assert (found.data.name, found.data.data_set, found.data.source) == (recipe, data_set, "published")
        printed = " ".join(capsys.readouterr().out.split())
        iou, dice = {"birds": ("0.5778", "0.7238"), "flowers": ("0.6482", "0.7612")}[data_set]
        for side, beside in (("encoder", (iou, dice)), ("decoder", ("–", "–"))):
            cells = printed[printed.index(f"│ paper's {side} │") :].split("│")
            assert [cell.strip() for cell in cells[2:6]] == [*beside, *beside]
        assert printed.count("it does not say how") == 1
        assert ("Flowers-102" in printed) == (recipe == "flowers17")
        assert "it does not say how" in found.paper.note


def test_provenance_stands_below_the_scores(squares, tmp_path, capsys):
    run = make_run(tmp_path / "run", preset=presets.with_fast_recipe(tiny_preset()))
    run_evaluation(run, EvaluationSettings())
    printed = " ".join(capsys.readouterr().out.split())
    found = read_evaluation(run).provenance
    assert found.images.startswith(f"{TEST_IMAGES} generated scenes, sha256 ")
    for fact in (found.images, found.training, found.decoder, found.masks, "tested on the published images"):
        assert " ".join(fact.split()) in printed
    assert "slot-centric" in found.decoder


def test_decoder_scores_that_repeat_the_encoders_are_shown_once(on_squares, tmp_path):
    repeated = {f"decoder_{name}": on_squares.scores[f"encoder_{name}"] for name in OF_MASKS}
    same = replace(on_squares, scores=on_squares.scores | repeated)
    assert not on_squares.decoder_repeats_encoder
    assert same.shown == [name for name in (*SCORES, *DISCOVERIES) if not name.startswith("decoder_")]
    run = make_run(tmp_path / "run")
    (run / FILE).write_text(same.to_json())
    (group,) = write_report([run], tmp_path / "report")
    assert group.decoder_repeats_encoder
    line = next(line for line in (tmp_path / "report" / "report.md").read_text().splitlines() if "decoder ARI" in line)
    assert line.split("|")[2].strip() == "–"


def test_an_evaluation_reads_what_it_wrote(on_squares):
    kept = Evaluation.from_dict(json.loads(on_squares.to_json()), "x")
    assert kept.to_json() == on_squares.to_json()
    with pytest.raises(ValueError, match="does not describe an evaluation"):
        Evaluation.from_dict({"format": "other"}, "x")
