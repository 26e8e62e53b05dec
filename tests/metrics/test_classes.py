import dataclasses
import itertools
import math

import numpy as np
import pytest
import torch

from cocanet.labels import UNLABELLED
from cocanet.metrics.functional.ari import adjusted_rand_index
from cocanet.metrics.functional.contingency import mask_contingency
from cocanet.metrics.functional.covering import segmentation_covering
from cocanet.metrics.scores import SegmentationScores, score_images
from cocanet.metrics.segmentation import (
    OVERLAPS,
    AdjustedRandIndex,
    ForegroundOverlap,
    ReconstructionError,
    SegmentationCovering,
    SlotsInUse,
)
from cocanet.metrics.table import OVERLAPS as OF_BEST_SLOT
from cocanet.metrics.table import SCORES, SLOTS, TABLE
from tests.metrics.processes import part, scene, score
from tests.metrics.reference import slow_overlaps

OUTPUT, LABELS, IMAGES = scene(10)
EMPTY = 4
"""Images of the scene that have no foreground."""

METRICS = {
    "ari": (lambda: AdjustedRandIndex(1), (OUTPUT.decoder_masks, LABELS)),
    "ari as the paper": (
        lambda: AdjustedRandIndex(1, paper_empty_foreground=True),
        (OUTPUT.decoder_masks, LABELS),
    ),
    "covering": (lambda: SegmentationCovering(1), (OUTPUT.decoder_masks, LABELS)),
    "covering by area": (lambda: SegmentationCovering(1, by_area=True), (OUTPUT.decoder_masks, LABELS)),
    "overlap": (ForegroundOverlap, (OUTPUT.decoder_masks, LABELS)),
    "mse": (ReconstructionError, (OUTPUT.reconstruction, IMAGES)),
    "slots": (SlotsInUse, (OUTPUT.decoder_masks, OUTPUT.in_use)),
}


def close(first, second) -> None:
    torch.testing.assert_close(first, second, rtol=1e-12, atol=0, equal_nan=True)


def whole() -> dict[str, torch.Tensor]:
    metric = SegmentationScores(background_labels=1)
    metric.update(OUTPUT, LABELS, IMAGES)
    return metric.compute()


def test_splitting_the_images_changes_nothing():
    for build, inputs in METRICS.values():
        one, first, second = build(), build(), build()
        one.update(*inputs)
        for metric, rows in ((first, slice(0, 1)), (first, slice(1, 3)), (second, slice(3, 10))):
            metric.update(*(x[rows] for x in inputs))
        second.merge_state(first)
        close(second.compute(), one.compute())
        assert torch.equal(second.empty, one.empty)


def test_a_call_returns_the_scores_of_the_batch_and_accumulates():
    for build, inputs in METRICS.values():
        metric, alone, one = build(), build(), build()
        metric(*(x[:4] for x in inputs))
        alone.update(*(x[4:] for x in inputs))
        one.update(*inputs)
        close(metric(*(x[4:] for x in inputs)), alone.compute())
        close(metric.compute(), one.compute())
        metric.reset()
        assert int(metric.scored.sum()) == 0


def test_classes_average_what_the_functions_give():
    table = mask_contingency(LABELS, OUTPUT.decoder_masks)
    covering = SegmentationCovering(1, by_area=True)
    covering.update(OUTPUT.decoder_masks, LABELS)
    close(covering.compute(), segmentation_covering(table, 1, by_area=True).nanmean())
    ari = AdjustedRandIndex()
    ari.update(OUTPUT.decoder_masks, LABELS)
    close(ari.compute(), adjusted_rand_index(table).mean())


def test_images_without_foreground_are_counted_apart_or_as_the_paper_counts_them():
    table = mask_contingency(LABELS, OUTPUT.decoder_masks)
    for build, function, filled in (
        (AdjustedRandIndex, adjusted_rand_index, 1.0),
        (SegmentationCovering, segmentation_covering, 0.0),
    ):
        plain, by_paper = build(1), build(1, paper_empty_foreground=True)
        for metric in (plain, by_paper):
            metric.update(OUTPUT.decoder_masks, LABELS)
            assert int(metric.empty) == EMPTY
        scores = function(table, 1)
        close(plain.compute(), scores.nanmean())
        close(by_paper.compute(), scores.nan_to_num(filled).mean())


def test_no_image_with_foreground_gives_no_score():
    metric = ForegroundOverlap()
    metric.update(OUTPUT.decoder_masks, torch.zeros_like(LABELS))
    assert all(math.isnan(score) for score in metric.compute().values())
    assert metric.empty.tolist() == [10] * len(OVERLAPS)


def test_all_scores_at_once():
    means = whole()
    assert tuple(means) == (*TABLE, "images", "images_without_foreground")
    for name, values in score_images(OUTPUT, LABELS, IMAGES, 1).items():
        close(means[name], values.nanmean())
    assert (int(means["images"]), int(means["images_without_foreground"])) == (10, EMPTY)
    assert float(means["slots"]) == pytest.approx(float(OUTPUT.in_use.sum(1).double().mean()))


@pytest.mark.parametrize("batches", [(0, 10), (0, 1, 4, 10)])
def test_overlaps_with_and_without_background_are_a_loops_in_any_batches(batches):
    labels = LABELS.clone()
    labels[1::4] = UNLABELLED
    metric = SegmentationScores(background_labels=1)
    for start, stop in itertools.pairwise(batches):
        rows = slice(start, stop)
        metric.update(part(OUTPUT, rows), labels[rows], IMAGES[rows])
    means = metric.compute()
    known = [index for index in range(10) if index % 4 != 1]
    for side in ("encoder", "decoder"):
        found = getattr(OUTPUT, f"{side}_masks").argmax(1).numpy()
        slow = [slow_overlaps(LABELS[index].numpy(), found[index], 5, 1) for index in known]
        for name in ("iou", "dice", "iou_both", "dice_both"):
            expected = np.nanmean([scores[name] for scores in slow])
            assert float(means[f"{side}_{name}"]) == pytest.approx(expected, abs=1e-12), name


def test_all_scores_at_once_as_the_paper_counts_them():
    metric = SegmentationScores(background_labels=1, paper_empty_foreground=True)
    metric.update(OUTPUT, LABELS, IMAGES)
    means, plain = metric.compute(), whole()
    for side in ("encoder", "decoder"):
        close(means[f"{side}_ari_fg"], (6 * plain[f"{side}_ari_fg"] + EMPTY) / 10)
        close(means[f"{side}_msc_fg"], 6 * plain[f"{side}_msc_fg"] / 10)
    # The paper has no code for IoU and Dice.
    for name in ("encoder_iou", "encoder_ari", "decoder_msc", "mse", "slots", "images", "images_without_foreground"):
        close(means[name], plain[name])


@pytest.mark.parametrize("by_paper", [False, True])
def test_scores_that_need_labels_leave_out_images_without_them(by_paper):
    labels, known = LABELS.clone(), torch.arange(10) % 3 != 0
    labels[~known] = UNLABELLED
    metric, without = (SegmentationScores(1, paper_empty_foreground=by_paper) for _ in range(2))
    metric.update(OUTPUT, labels, IMAGES)
    without.update(part(OUTPUT, known), LABELS[known], IMAGES[known])
    found, expected = metric.compute(), without.compute()
    for name in (*SCORES[:-1], *OF_BEST_SLOT, "images_without_foreground"):
        close(found[name], expected[name])
    for name in ("mse", *SLOTS, "images"):
        close(found[name], whole()[name])
    each = score_images(OUTPUT, labels, IMAGES, 1)
    assert all(each[name][~known].isnan().all() for name in SCORES[:-1])


def test_the_single_scores_leave_out_images_without_labels_too():
    for name in ("ari", "ari as the paper", "covering", "covering by area", "overlap"):
        build, (masks, labels) = METRICS[name]
        metric, without = build(), build()
        unlabelled = torch.full_like(labels[5:], UNLABELLED)
        metric.update(masks[:5], labels[:5])
        metric.update(masks[5:], unlabelled)
        without.update(masks[:5], labels[:5])
        close(metric.compute(), without.compute())
        assert torch.equal(metric.empty, without.empty)


def test_a_broken_reconstruction_is_not_left_out():
    reconstruction = OUTPUT.reconstruction.clone()
    reconstruction[0, 0, 0, 0] = torch.nan
    metric = SegmentationScores(background_labels=1)
    metric.update(dataclasses.replace(OUTPUT, reconstruction=reconstruction), LABELS, IMAGES)
    assert math.isnan(metric.compute()["mse"])


def test_slots_that_pad_or_own_nothing_are_not_in_use():
    masks = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]]).view(2, 3, 1, 1).repeat(1, 1, 1, 2)
    masks[0, :, 0, 1] = torch.tensor([0.2, 0.5, 0.3])
    metric = SlotsInUse()
    metric.update(masks)
    assert float(metric.compute()) == 1.5
    metric.reset()
    metric.update(masks, torch.tensor([[True, False, True], [True, True, True]]))
    assert float(metric.compute()) == 1


def test_merging_states_of_shares_gives_the_whole():
    shares = [SegmentationScores(background_labels=1) for _ in range(3)]
    for metric, rows in zip(shares, (slice(0, 7), slice(7, 7), slice(7, 10)), strict=True):
        metric.update(part(OUTPUT, rows), LABELS[rows], IMAGES[rows])
    for other in shares[1:]:
        shares[0].merge_state(other)
    close(shares[0].compute(), whole())


@pytest.mark.slow
def test_two_processes_give_the_scores_of_one(tmp_path):
    shares = [slice(0, 7), slice(7, 10)]
    other = torch.multiprocessing.get_context("spawn").Process(target=score, args=(1, str(tmp_path), shares))
    other.start()
    score(0, str(tmp_path), shares)
    other.join()
    overlap = ForegroundOverlap()
    overlap.update(OUTPUT.encoder_masks, LABELS)
    expected = whole() | overlap.compute()
    for rank in range(2):
        close(torch.load(tmp_path / f"{rank}.pt", weights_only=True), expected)
