"""Scores of segments: what they depend on, and that they are calibrated on scenes with known objects."""

from __future__ import annotations

import numpy as np
import pytest

import cocanet
from cocanet.data.generators import make_scenes
from cocanet.predict.scores import measure_cues, object_scores

SCENES = 12


def score_of(labels: np.ndarray, image: np.ndarray, sharpness: float = 0.9) -> float:
    scores = object_scores(measure_cues(image, labels, np.full(int(labels.max()) + 1, sharpness)))
    return float(scores[1])


def picture(labels: np.ndarray, difference: int = 120) -> np.ndarray:
    return np.repeat((60 + difference * (labels == 1))[..., None], 3, 2).astype(np.uint8)


def test_a_clear_disc_is_an_object_and_a_corner_a_faint_patch_and_dust_are_not():
    rows, columns = np.indices((48, 64))
    disc = ((rows - 24) ** 2 + (columns - 30) ** 2 < 100).astype(np.int32)
    corner = ((rows > 24) & (columns > 40)).astype(np.int32)
    dust = (np.random.default_rng(0).random((48, 64)) < 0.05).astype(np.int32)
    assert score_of(disc, picture(disc)) > 0.9
    assert score_of(corner, picture(corner)) < 0.2
    assert score_of(disc, picture(disc, difference=0)) < 0.5
    assert score_of(dust, picture(dust)) < 0.2
    assert score_of(disc, picture(disc), sharpness=0.3) < score_of(disc, picture(disc))


@pytest.mark.parametrize("factor", [2, 5])
def test_scores_do_not_depend_on_the_size_of_the_image(factor):
    rows, columns = np.indices((64, 64))
    disc = ((rows - 24) ** 2 + (columns - 30) ** 2 < 100).astype(np.int32)
    large = disc.repeat(factor, 0).repeat(factor, 1)
    assert score_of(large, picture(large)) == pytest.approx(score_of(disc, picture(disc)), abs=0.01)


def test_what_scores_little_is_background_and_objects_come_by_area():
    source = make_scenes("objects-room", count=SCENES, seed=9)
    segmenter = cocanet.load("objects-room")
    for index in range(SCENES):
        image = source[index].image
        everything, kept = segmenter.segment(image, min_score=0), segmenter.segment(image)
        enough = [segment for segment in everything.objects if segment.score >= 0.2]
        assert [segment.slot for segment in kept.objects] == [segment.slot for segment in enough]
        areas = [segment.area for segment in kept.objects]
        assert areas == sorted(areas, reverse=True)
        for segment in kept.objects:
            (same,) = [each for each in everything.objects if each.slot == segment.slot]
            assert np.array_equal(kept.labels == segment.label, everything.labels == same.label)


def test_scores_are_calibrated_on_scenes_that_they_were_not_fitted_to():
    scores, overlaps = [], []
    for name in ("tetrominoes", "objects-room"):
        source, segmenter = make_scenes(name, count=SCENES, seed=77), cocanet.load(name)
        for sample in (source[index] for index in range(SCENES)):
            found = segmenter.segment(sample.image, min_score=0)
            truth = [sample.labels == label for label in range(source.background_labels, int(sample.labels.max()) + 1)]
            for segment in found.objects:
                own = found.labels == segment.label
                scores.append(segment.score)
                overlaps.append(max((own & each).sum() / (own | each).sum() for each in truth))
    objects = np.array(overlaps) >= 0.5
    confident, rejected = np.array(scores) > 0.8, np.array(scores) < 0.2
    assert objects[confident].mean() > 0.9
    assert objects[rejected].mean() < 0.35
    assert confident.sum() > 2 * SCENES
    assert rejected.sum() > SCENES
