from __future__ import annotations

import hashlib
import json
import multiprocessing
import pickle
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest

from cocanet.data.generators.clevr import Clevr
from cocanet.data.generators.clevrtex import ClevrTex
from cocanet.data.generators.objects_room import ObjectsRoom
from cocanet.data.generators.render import Body, Camera, Lamp, Renderer
from cocanet.data.generators.rendered import RenderedScenes, scaled_pixels
from cocanet.data.generators.shapestacks import ShapeStacks, half_height
from cocanet.data.sample import Sample
from tests.data.generators.rendering import needs_renderer

SETS: dict[str, type[RenderedScenes]] = {
    "objects-room": ObjectsRoom,
    "shapestacks": ShapeStacks,
    "clevr": Clevr,
    "clevrtex": ClevrTex,
}
RANGES = {"objects-room": (1, 3), "shapestacks": (2, 6), "clevr": (3, 10), "clevrtex": (3, 10)}
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


class Rendered(NamedTuple):
    """A sample and what its image was rendered from."""

    sample: Sample
    renderer: Renderer
    bodies: Sequence[Body]
    exposures: Sequence[Sequence[Lamp]]
    camera: Camera


@pytest.fixture(scope="module", params=SETS)
def made(request: pytest.FixtureRequest) -> tuple[RenderedScenes, list[Rendered]]:
    """The first samples of a set."""
    source = _make(request.param)
    calls: list[tuple[Any, ...]] = []
    render = Renderer.image

    def image(*arguments: Any) -> np.ndarray:
        calls.append(arguments)
        return render(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Renderer, "image", image)
        samples = [source[index] for index in range(6)]
    return source, [Rendered(sample, *call) for sample, call in zip(samples, calls, strict=True)]


@needs_renderer
def test_a_sample_is_complete_and_follows_the_rules(made: tuple[RenderedScenes, list[Rendered]]) -> None:
    source, rendered = made
    low, high = RANGES[source.name]
    for sample, *_ in rendered:
        assert sample.image.shape == (source.size, source.size, 3)
        assert sample.image.dtype == sample.labels.dtype == np.uint8
        objects = len(sample.factors["position"])
        assert low <= objects <= high
        second_wall = {3} if source.name == "objects-room" else set()  # not every room shows one
        assert second_wall | set(np.unique(sample.labels).tolist()) == set(range(source.background_labels + objects))
        assert set(sample.factors) >= FACTORS
        assert all(len(column) == objects for column in sample.factors.values())
        assert sample.factors["position"].shape == (objects, 3)
        covered = np.bincount(sample.labels.reshape(-1))[source.background_labels :]
        np.testing.assert_array_equal(sample.factors["visibility"], covered)
        assert covered.min() >= source.recipe["min_pixels"]
        assert sample.image.std() > 10


@needs_renderer
def test_a_sample_depends_on_seed_and_index_alone(made: tuple[RenderedScenes, list[Rendered]]) -> None:
    source, rendered = made
    there = [_digest(entry.sample) for entry in rendered[:3]]
    assert _digests(source.name, [2, 1, 0]) == there[::-1]
    assert _digest(_make(source.name, count=5000)[1]) == there[1]
    assert len({*there, _digest(_make(source.name, seed=5)[0])}) == 4


@needs_renderer
@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_worker_processes_render_the_same(method: str) -> None:
    """With fork the parent has a renderer already, which the children must not touch."""
    names = ("objects-room", "clevr")
    here = {name: _digests(name, [0, 1]) for name in names}
    with multiprocessing.get_context(method).Pool(2) as pool:
        tasks = {name: pool.apply_async(_digests, (name, [1, 0])) for name in names}
        assert {name: task.get(timeout=120)[::-1] for name, task in tasks.items()} == here


def test_object_counts_cover_the_published_range(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: set[int] = set()
    empty = Sample(np.zeros((1, 1, 3), np.uint8), np.zeros((1, 1), np.uint8), {})
    for kind in SETS.values():
        monkeypatch.setattr(kind, "_attempt", lambda self, rng, count: counts.add(count) or empty)

    def drawn(source: RenderedScenes) -> set[int]:
        counts.clear()
        for index in range(len(source)):
            source[index]
        return set(counts)

    for name, (low, high) in RANGES.items():
        assert drawn(_make(name)) == set(range(low, high + 1))
    assert drawn(Clevr(50, 0, max_objects=3)) == {3}
    assert drawn(ObjectsRoom(50, 0, max_objects=6)) == set(range(1, 7))


@needs_renderer
def test_centres_lie_on_their_own_label_or_behind_a_nearer_one(made: tuple[RenderedScenes, list[Rendered]]) -> None:
    source, rendered = made
    checked = 0
    for sample, *_, camera in rendered:
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
def test_scenes_have_shadows(made: tuple[RenderedScenes, list[Rendered]]) -> None:
    source, rendered = made
    darker = []
    for index, (sample, renderer, bodies, exposures, camera) in enumerate(rendered[:3]):
        source[index]  # the textures of CLEVR's metals are those of the scene rendered last
        unshadowed = [replace(body, shadow=False, caster=None) for body in bodies]
        np.testing.assert_array_equal(renderer.labels(unshadowed, camera), sample.labels)
        without = renderer.image(unshadowed, exposures, camera).astype(int)
        background = sample.labels < source.background_labels
        change = (without - sample.image).mean(axis=-1)[background]
        assert change.min() > -6
        darker.append((change > 4).sum())
    assert max(darker) > 0.01 * source.size**2


@needs_renderer
def test_image_edges_lie_on_label_edges(made: tuple[RenderedScenes, list[Rendered]]) -> None:
    """The image changes most across label borders when the two are not shifted against each other."""
    strength = np.zeros((5, 5))
    for sample, *_ in made[1]:
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
def test_table_objects_keep_apart() -> None:
    for name in ("clevr", "clevrtex"):
        source = _make(name)
        for index in range(4):
            factors = source[index].factors
            spots, halves = factors["position"][:, :2], factors["size"]
            gaps = np.linalg.norm(spots[:, None] - spots, axis=-1) - halves[:, None] - halves
            np.fill_diagonal(gaps, np.inf)
            assert gaps.min() >= 0.2499
            assert np.abs(spots).max() <= 3
            np.testing.assert_allclose(factors["position"][:, 2], halves)


def test_a_source_has_a_recipe_and_can_be_pickled() -> None:
    for name in SETS:
        source = _make(name)
        recipe = json.loads(json.dumps(source.recipe))
        assert recipe["name"] == name
        assert recipe["seed"] == 4
        assert pickle.loads(pickle.dumps(source)).recipe == source.recipe
        assert len(source) == 100
        assert source.has_labels
        assert source.background_labels == (4 if name == "objects-room" else 1)


def test_wrong_values_are_named() -> None:
    for name, kind in SETS.items():
        with pytest.raises(ValueError, match="count is 0"):
            kind(0, 1)  # type: ignore[call-arg]
        with pytest.raises(ValueError, match="size is 4"):
            kind(1, 1, 4)  # type: ignore[call-arg]
        with pytest.raises(ValueError, match="max_objects is 99"):
            kind(1, 1, 64, 99)
        for index in (-1, 100):
            with pytest.raises(IndexError):
                _make(name)[index]


def test_the_minimum_of_pixels_scales_with_the_area() -> None:
    assert scaled_pixels(200, 192, 192) == 200
    assert scaled_pixels(200, 192, 128) == 89
    assert scaled_pixels(20, 64, 32) == 5
