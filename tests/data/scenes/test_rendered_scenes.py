from __future__ import annotations

import hashlib
import json
import multiprocessing
import pickle
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from cocanet.data.sample import Sample
from cocanet.data.scenes.clevr import Clevr
from cocanet.data.scenes.clevrtex import ClevrTex
from cocanet.data.scenes.objects_room import ObjectsRoom
from cocanet.data.scenes.render import Camera, Lamp, Stage, Thing
from cocanet.data.scenes.rendered import RenderedScenes, scaled_pixels
from cocanet.data.scenes.shapestacks import ShapeStacks, half_height
from tests.data.scenes.rendering import needs_renderer

SETS: dict[str, type[RenderedScenes]] = {
    "objects-room": ObjectsRoom,
    "shapestacks": ShapeStacks,
    "clevr": Clevr,
    "clevrtex": ClevrTex,
}
RANGES = {"objects-room": (1, 3), "shapestacks": (2, 6), "clevr": (3, 10), "clevrtex": (3, 10)}
EVERY = pytest.mark.parametrize("name", SETS)
FACTORS = {"position", "shape", "size", "colour", "material", "rotation", "visibility"}


def _make(name: str, count: int = 100, seed: int = 4) -> RenderedScenes:
    return SETS[name](count, seed)  # type: ignore[call-arg]


def _digest(sample: Sample) -> str:
    parts = [sample.image.tobytes(), sample.labels.tobytes()]
    parts += [key.encode() + sample.factors[key].tobytes() for key in sorted(sample.factors)]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def _digests(name: str, indices: Sequence[int]) -> list[str]:
    source = _make(name)
    return [_digest(source[index]) for index in indices]


@needs_renderer
@EVERY
def test_a_sample_keeps_its_promises(name: str) -> None:
    source = _make(name)
    low, high = RANGES[name]
    for index in range(8):
        sample = source[index]
        assert sample.image.shape == (source.size, source.size, 3)
        assert sample.image.dtype == sample.labels.dtype == np.uint8
        objects = len(sample.factors["position"])
        assert low <= objects <= high
        assert np.unique(sample.labels).tolist() == list(range(source.background_labels + objects))
        assert set(sample.factors) >= FACTORS
        assert all(len(column) == objects for column in sample.factors.values())
        assert sample.factors["position"].shape == (objects, 3)
        covered = np.bincount(sample.labels.reshape(-1))[source.background_labels :]
        np.testing.assert_array_equal(sample.factors["visibility"], covered)
        assert covered.min() >= source.recipe["min_pixels"]
        assert sample.image.std() > 10


@needs_renderer
@EVERY
def test_a_sample_depends_on_seed_and_index_alone(name: str) -> None:
    there = _digests(name, [0, 1, 2])
    back = _digests(name, [2, 1, 0])
    assert there == back[::-1]
    longer = _make(name, count=5000)
    assert _digest(longer[1]) == there[1]
    assert len({*there, _digest(_make(name, seed=5)[0])}) == 4


@needs_renderer
@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_worker_processes_draw_the_same(method: str) -> None:
    """With fork the parent has a renderer already, which the children must not touch."""
    here = {name: _digests(name, [0, 1]) for name in SETS}
    with multiprocessing.get_context(method).Pool(2) as pool:
        tasks = {name: pool.apply_async(_digests, (name, [1, 0])) for name in SETS}
        assert {name: task.get(timeout=120)[::-1] for name, task in tasks.items()} == here


@needs_renderer
@pytest.mark.slow
@EVERY
def test_object_counts_cover_the_published_range(name: str) -> None:
    source = _make(name)
    counts = {len(source[index].factors["shape"]) for index in range(40)}
    assert counts == set(range(RANGES[name][0], RANGES[name][1] + 1))


@needs_renderer
def test_max_objects_limits_the_scene() -> None:
    assert max(len(Clevr(50, 0, max_objects=3)[k].factors["shape"]) for k in range(6)) == 3
    assert max(len(ObjectsRoom(50, 0, max_objects=1)[k].factors["shape"]) for k in range(6)) == 1


class _Spy:
    """Keeps what the scenes hand to the renderer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[Stage, list[Thing], list[list[Lamp]], Camera]] = []
        draw = Stage.image

        def image(stage: Stage, things: list[Thing], exposures: list[list[Lamp]], camera: Camera) -> np.ndarray:
            self.calls.append((stage, things, exposures, camera))
            return draw(stage, things, exposures, camera)

        monkeypatch.setattr(Stage, "image", image)


@needs_renderer
@EVERY
def test_centres_lie_on_their_own_label_or_behind_a_nearer_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spy = _Spy(monkeypatch)
    source = _make(name)
    checked = 0
    for index in range(6):
        sample = source[index]
        camera = spy.calls[-1][3]
        projected = camera.project(sample.factors["position"].astype(float), source.size)
        for k, (column, row, depth) in enumerate(projected):
            if not (0 <= column < source.size and 0 <= row < source.size):
                continue
            found = int(sample.labels[int(row), int(column)]) - source.background_labels
            assert found >= 0
            assert found == k or projected[found][2] < depth + 1e-3
            checked += 1
    assert checked >= 6


@needs_renderer
@EVERY
def test_scenes_have_shadows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spy = _Spy(monkeypatch)
    source = _make(name)
    darker = []
    for index in range(4):
        sample = source[index]
        stage, things, exposures, camera = spy.calls[-1]
        unshadowed = [replace(thing, shadow=False, caster=None) for thing in things]
        np.testing.assert_array_equal(stage.labels(unshadowed, camera), sample.labels)
        without = stage.image(unshadowed, exposures, camera).astype(int)
        background = sample.labels < source.background_labels
        change = (without - sample.image).mean(axis=-1)[background]
        assert change.min() > -6
        darker.append((change > 4).sum())
    assert max(darker) > 0.01 * source.size**2


@needs_renderer
@EVERY
def test_image_edges_sit_on_label_edges(name: str) -> None:
    """The image changes most across label borders when the two are not shifted against each other."""
    source = _make(name)
    strength = np.zeros((5, 5))
    for index in range(6):
        sample = source[index]
        image, labels = sample.image.astype(float), sample.labels
        for axis in (0, 1):
            steps = np.abs(np.diff(image, axis=axis)).sum(axis=-1)
            borders = np.diff(labels.astype(int), axis=axis) != 0
            for down in range(-2, 3):
                for across in range(-2, 3):
                    strength[down + 2, across + 2] += steps[np.roll(borders, (down, across), (0, 1))].sum()
    assert np.unravel_index(strength.argmax(), strength.shape) == (2, 2)


@needs_renderer
def test_blocks_of_a_tower_stand_on_each_other() -> None:
    source = _make("shapestacks")
    for index in range(6):
        factors = source[index].factors
        rows = [{key: factors[key][k] for key in ("size", "lying")} for k in range(len(factors["shape"]))]
        heights = np.array([half_height(row) for row in rows])
        bottoms, tops = factors["position"][:, 2] - heights, factors["position"][:, 2] + heights
        np.testing.assert_allclose(bottoms[1:], tops[:-1], atol=1e-5)
        assert bottoms[0] == pytest.approx(0, abs=1e-6)
        shift = np.linalg.norm(np.diff(factors["position"][:, :2], axis=0), axis=1)
        assert (shift <= np.minimum(factors["size"][1:].min(axis=1), factors["size"][:-1].min(axis=1))).all()


@needs_renderer
@pytest.mark.parametrize("name", ["clevr", "clevrtex"])
def test_table_objects_keep_apart(name: str) -> None:
    source = _make(name)
    for index in range(6):
        factors = source[index].factors
        spots, halves = factors["position"][:, :2], factors["size"]
        gaps = np.linalg.norm(spots[:, None] - spots, axis=-1) - halves[:, None] - halves
        np.fill_diagonal(gaps, np.inf)
        assert gaps.min() >= 0.2499
        assert np.abs(spots).max() <= 3
        np.testing.assert_allclose(factors["position"][:, 2], halves)


@EVERY
def test_a_source_is_described_and_travels_to_workers(name: str) -> None:
    source = _make(name)
    recipe = json.loads(json.dumps(source.recipe))
    assert recipe["name"] == name
    assert recipe["seed"] == 4
    assert pickle.loads(pickle.dumps(source)).recipe == source.recipe
    assert len(source) == 100
    assert source.has_labels
    assert source.background_labels == (4 if name == "objects-room" else 1)


@EVERY
def test_wrong_values_are_named(name: str) -> None:
    with pytest.raises(ValueError, match="count is 0"):
        SETS[name](0, 1)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="size is 4"):
        SETS[name](1, 1, 4)
    with pytest.raises(ValueError, match="max_objects is 99"):
        SETS[name](1, 1, 64, 99)  # type: ignore[call-arg]
    for index in (-1, 100):
        with pytest.raises(IndexError):
            _make(name)[index]


def test_the_minimum_of_pixels_follows_the_area() -> None:
    assert scaled_pixels(200, 192, 192) == 200
    assert scaled_pixels(200, 192, 128) == 89
    assert scaled_pixels(20, 64, 32) == 5
