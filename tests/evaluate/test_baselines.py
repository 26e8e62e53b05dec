"""Non-learned baselines, compared with scikit-learn and with loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans

from cocanet import build
from cocanet.config import DataConfig, Preset, RefineConfig
from cocanet.config.slots import preset_with_slots
from cocanet.data.colour_clusters import kmeans
from cocanet.data.loader import Batch
from cocanet.evaluate import baselines
from cocanet.evaluate.baselines import (
    central_disc,
    colour_clusters,
    felzenszwalb_segments,
    grabcut,
    methods,
    score_baselines,
    untrained_encoder,
)
from cocanet.labels import UNLABELLED
from cocanet.metrics.table import OF_MASKS
from cocanet.refine import refine
from tests.metrics.reference import slow_overlaps
from tests.tiny import SQUARE, images

BIRDS = Preset("birds", SQUARE, DataConfig("birds"))


def colours(seed: int, blobs: int = 6, pixels: int = 600) -> torch.Tensor:
    """Colours of a few blurred blobs of unequal size."""
    rng = np.random.default_rng(seed)
    centres, spreads = rng.random((blobs, 3)), rng.uniform(0.02, 0.15, (blobs, 1))
    owner = rng.choice(blobs, pixels, p=rng.dirichlet(np.ones(blobs)))
    return torch.from_numpy((centres[owner] + spreads[owner] * rng.normal(size=(pixels, 3))).clip(0, 1)).float()


def error(points: torch.Tensor, centres: torch.Tensor) -> float:
    distances = (points[:, None].double() - centres.double()).square().sum(2)
    return float(distances.min(1).values.sum())


@pytest.mark.parametrize("count", [2, 6])
def test_kmeans_is_as_good_as_scikit_learns(count):
    points = torch.stack([colours(seed) for seed in range(8)])
    ours, theirs = [], []
    for sample, centres in zip(points, kmeans(points, count), strict=True):
        tries = [KMeans(count, n_init=1, random_state=seed).fit(sample.numpy()).inertia_ for seed in range(10)]
        ours.append(error(sample, centres) / min(tries))
        theirs.append(np.mean(tries) / min(tries))
        further = KMeans(count, init=centres.numpy(), n_init=1, tol=0).fit(sample.numpy())
        assert error(sample, centres) == pytest.approx(further.inertia_, rel=1e-4), "nothing is left to move"
    assert np.mean(ours) <= np.mean(theirs), "no worse than one try of k-means++"
    assert np.mean(ours) < 1.05, "and near the best of ten"


def test_kmeans_is_the_same_each_time_and_in_any_batch():
    points = torch.stack([colours(seed) for seed in range(4)])
    together = kmeans(points, 4)
    torch.testing.assert_close(kmeans(points, 4), together, rtol=0, atol=0)
    alone = torch.cat([kmeans(sample.unsqueeze(0), 4) for sample in points])
    torch.testing.assert_close(alone, together, rtol=1e-5, atol=1e-6)


def test_plain_colours_are_separated_even_if_they_are_fewer_than_clusters():
    labels = torch.zeros(1, 8, 12, dtype=torch.int64)
    labels[:, 2:5, 3:9], labels[:, 6:, :4] = 1, 2
    picture = torch.tensor([[0.1, 0.2, 0.9], [0.8, 0.1, 0.1], [0.2, 0.9, 0.3]])[labels].permute(0, 3, 1, 2)
    for count in (3, 5):
        found = colour_clusters(count).segment(picture)
        pairs = {(int(a), int(b)) for a, b in zip(labels.flatten(), found.flatten(), strict=True)}
        assert len(pairs) == 3


def test_large_images_are_clustered_by_few_pixels(monkeypatch):
    seen = []
    monkeypatch.setattr(baselines, "kmeans", lambda points, count: seen.append(points.shape) or points[:, :count])
    assert colour_clusters(2).segment(torch.rand(2, 3, 128, 48)).shape == (2, 128, 48)
    assert seen == [(2, 64 * 48, 3)]


def test_felzenszwalbs_segments_are_scikit_images_at_the_scale_with_as_many():
    found = pytest.importorskip("skimage.segmentation", reason="scikit-image is not installed")
    pictures = torch.rand(6, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    pictures = torch.nn.functional.interpolate(pictures, (64, 64), mode="bilinear")
    for count in (4, 12):
        labels = felzenszwalb_segments(count).segment(pictures)
        numbers = [int(each.max()) + 1 for each in labels]
        assert abs(np.median(numbers) - count) <= 4
        views = pictures.permute(0, 2, 3, 1).numpy()
        assert any(
            all(
                np.array_equal(found.felzenszwalb(view, scale=scale, sigma=0.5, min_size=41), each)
                for view, each in zip(views, labels, strict=True)
            )
            for scale in baselines.SCALES
        )


def test_grabcut_finds_a_disc_in_its_box():
    pytest.importorskip("cv2", reason="OpenCV is not installed")
    rows, columns = np.indices((48, 64))
    disc = (rows - 24) ** 2 + (columns - 30) ** 2 < 150
    noise = np.random.default_rng(0).normal(0, 0.03, (48, 64, 3))
    picture = np.clip(np.where(disc[..., None], (0.9, 0.3, 0.2), (0.2, 0.5, 0.4)) + noise, 0, 1)
    batch = torch.from_numpy(np.stack((picture, np.full_like(picture, 0.5)))).permute(0, 3, 1, 2).float()
    found = grabcut(batch)
    assert (found[0].numpy() == disc).mean() > 0.99
    assert torch.equal(found, grabcut(batch))


def test_the_disc_has_a_quarter_of_the_shorter_side():
    for height, width in ((16, 16), (9, 20)):
        found = central_disc(torch.zeros(2, 3, height, width))
        radius = min(height, width) / 4
        for row in range(height):
            for column in range(width):
                inside = math.hypot(row + 0.5 - height / 2, column + 0.5 - width / 2) <= radius
                assert found[0, row, column] == found[1, row, column] == inside


def test_the_untrained_encoder_is_that_of_fresh_weights():
    picture = images(SQUARE)
    with torch.inference_mode():
        output = build(SQUARE, seed=0).eval()(picture)
        assert torch.equal(untrained_encoder(BIRDS).segment(picture), output.encoder_masks.argmax(1))
        refined = refine(output.encoder_masks, picture, output.in_use, RefineConfig())
        assert torch.equal(untrained_encoder(BIRDS, refined=True).segment(picture), refined.argmax(1))


def test_colours_are_clustered_in_two_and_in_as_many_as_there_are_slots():
    assert [each.name for each in methods(BIRDS)] == [
        "kmeans2",
        "kmeans4",
        "felzenszwalb",
        "grabcut",
        "untrained",
        "whole",
    ]
    assert [each.name for each in methods(BIRDS, single=True)][-2:] == ["disc", "whole"]
    assert [each.name for each in methods(preset_with_slots(BIRDS, 2, None))][:2] == ["kmeans2", "felzenszwalb"]
    assert "kmeans7" in [each.name for each in methods(preset_with_slots(BIRDS, 7, True))]


def scenes(count: int = 9) -> Batch:
    rng = torch.Generator().manual_seed(0)
    labels = torch.zeros(count, 32, 32, dtype=torch.int64)
    labels[:, 8:20, 6:25] = 1
    labels[4] = 0
    labels[5] = UNLABELLED
    return Batch(torch.rand(count, 3, 32, 32, generator=rng), labels, torch.arange(count))


def test_scores_are_those_of_loops_in_any_batches_without_unlabelled_images():
    scene = scenes()
    batches = [Batch(*(part[start:stop] for part in scene[:3])) for start, stop in ((0, 1), (1, 6), (6, 9))]
    found = {each.name: each for each in score_baselines(methods(BIRDS, single=True), batches, 1)}
    disc, whole = central_disc(scene.images).numpy(), np.zeros((9, 32, 32), dtype=np.int64)
    for name, segments in (("disc", disc), ("whole", whole)):
        kept = [index for index in range(9) if index not in (4, 5)]
        slow = [slow_overlaps(scene.labels[index].numpy(), segments[index], 2, 1) for index in kept]
        means = found[name].means().scores
        assert tuple(means) == OF_MASKS
        for score in ("iou", "dice", "iou_both", "dice_both"):
            assert means[score] == pytest.approx(np.mean([scores[score] for scores in slow]), abs=1e-12)
    assert found["whole"].means().scores["iou"] == pytest.approx(12 * 19 / 32**2)
    counted = found["whole"].means(paper_empty_foreground=True).scores
    assert counted["msc_fg"] == pytest.approx(12 * 19 / 32**2 * 7 / 8), "one of eight is empty, and counts as 0"
    assert counted["ari_fg"] == 1
    assert counted["iou"] == pytest.approx(12 * 19 / 32**2), "the paper has no code for IoU"
    at_once = score_baselines(methods(BIRDS, single=True), [scene], 1)
    for each in at_once:
        expected = found[each.name].means().scores
        assert each.means().scores == pytest.approx(expected, abs=1e-3), each.name
        assert all(math.isnan(values[5]) for values in each.per_image.values())


def test_images_without_labels_have_no_score():
    scene = scenes()
    unlabelled = scene._replace(labels=torch.full_like(scene.labels, UNLABELLED))
    (scores,) = score_baselines(methods(BIRDS)[-1:], [unlabelled], 1)
    assert set(scores.means().scores.values()) == {None}
