"""Generated scenes against samples of the published sets: colours, contrast, visibility and layout."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import rgb_to_hsv
from PIL import Image

from cocanet.data.generators import make_scenes, shapestacks
from cocanet.data.sample import Sample
from cocanet.data.store_writer import ManySource
from tests.data.generators.rendering import needs_renderer


@cache
def _scenes(name: str, max_objects: int | None = None) -> list[Sample]:
    count = {"multi-dsprites": 400, "clevr": 24}.get(name, 60)
    source = make_scenes(name, count=count, seed=11, max_objects=max_objects)
    return source.many(np.arange(count)) if isinstance(source, ManySource) else [source[k] for k in range(count)]


def _read(path: Path, box: tuple[int, int, int, int], side: int, nearest: bool = False) -> np.ndarray:
    if not path.exists():
        pytest.skip(f"no published sample {path}")
    resample = Image.Resampling.NEAREST if nearest else Image.Resampling.BILINEAR
    return np.asarray(Image.open(path).convert("RGB").crop(box).resize((side, side), resample)) / 255


def _variance(image: np.ndarray) -> float:
    return float(image.var(axis=(0, 1)).sum())


def test_sprites_are_as_dark_as_published(samples: Path) -> None:
    image, mask = (_read(samples / "preview/multi_dsprites.png", (x, 0, x + 64, 64), 64, True) for x in (0, 64))
    shown = [np.median(image[(mask == colour).all(-1)], axis=0) for colour in np.unique(mask.reshape(-1, 3), axis=0)]
    values = np.array([colour.max() for colour in shown])
    made = np.concatenate([sample.factors["colour"] for sample in _scenes("multi-dsprites")]) / 255
    _, saturation, value = rgb_to_hsv(made).T
    share = np.mean(value <= np.sort(values)[1])  # below the second darkest of the published sprites
    assert share > 0.15
    assert value.min() < values.min()
    for column in (saturation, value):
        np.testing.assert_allclose(np.quantile(column, [0.1, 0.5, 0.9]), [0.1, 0.5, 0.9], atol=0.06)


def test_sprites_may_be_nearly_hidden() -> None:
    visible = np.concatenate([sample.factors["visibility"] for sample in _scenes("multi-dsprites")])
    assert visible.min() >= 1
    assert 0.005 < np.mean(visible < 20) < 0.1


def _contrast(image: np.ndarray) -> float:
    """Median distance of the pixels that stand out from a smooth grey ground, found without labels."""
    height, width = image.shape[:2]
    y, x = np.mgrid[:height, :width] / height - 0.5
    terms = np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=-1).reshape(-1, 6)
    grey, brightness = np.ptp(image, axis=-1).reshape(-1) < 0.06, image.mean(axis=-1).reshape(-1)
    ground = grey
    for _ in range(6):
        fit = terms @ np.linalg.lstsq(terms[ground], brightness[ground], rcond=None)[0]
        ground = grey & (np.abs(brightness - fit) < 0.05)
    distance = np.linalg.norm(image.reshape(-1, 3) - fit[:, None], axis=1)
    return float(np.median(distance[distance > 0.12]))


@needs_renderer
def test_clevr_has_the_published_contrast(samples: Path) -> None:
    files = sorted((samples / "clevr_images").glob("*.jpg"))
    if len(files) < 5:
        pytest.skip(f"fewer than five published images in {samples / 'clevr_images'}")
    published = [_read(file, (64, 16, 256, 208), 128) for file in files]
    made = [sample.image / 255 for sample in _scenes("clevr", 6)]
    for measure in (_contrast, _variance, np.mean):
        theirs, ours = ([measure(image) for image in images] for images in (published, made))
        assert min(theirs) <= np.median(ours) <= max(theirs)


@needs_renderer
def test_clevr_objects_stand_out_as_little_as_published() -> None:
    """Medians of the published images lie between .22 and .39."""
    medians = []
    for sample in _scenes("clevr", 6):
        image, ground = sample.image / 255, sample.labels == 0
        colours = [np.median(image[sample.labels == k], axis=0) for k in range(1, sample.labels.max() + 1)]
        medians.append(np.median(np.linalg.norm(colours - np.median(image[ground], axis=0), axis=1)))
    assert 0.22 <= np.median(medians) <= 0.39


@needs_renderer
def test_towers_stand_where_the_published_ones_do(samples: Path) -> None:
    files = sorted((samples / "shapestacks").glob("vseg*.png"))
    if not files:
        pytest.skip(f"no published masks in {samples / 'shapestacks'}")
    theirs = []
    for file in files:
        theirs.append(np.nonzero(_read(file, (14, 14, 210, 210), 64, True).any(axis=-1))[1].mean() / 64)
    ours = [np.nonzero(sample.labels)[1].mean() / 64 for sample in _scenes("shapestacks")]
    low, high = np.quantile(ours, [0.1, 0.9])
    assert low < min(theirs)
    assert high > 1 - min(theirs)
    assert np.std(ours) > 0.06
    assert min(ours) > 0.15
    assert max(ours) < 0.85


@needs_renderer
def test_walls_and_floors_of_towers_are_as_bright_as_published(samples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wall (upper third) and floor (lower third): brightness, its spread, and colourfulness, from the same cameras."""
    monkeypatch.setattr(shapestacks, "CAMERAS", shapestacks.CAMERAS[:2])

    def describe(image: np.ndarray, background: np.ndarray) -> list[float]:
        parts = [image[:20][background[:20]], image[-24:][background[-24:]]]
        return [x for p in parts for x in (p.mean(), p.mean(axis=-1).std(), np.ptp(p, axis=-1).mean())]

    theirs = []
    for file in sorted((samples / "shapestacks").glob("rgb*.png")):
        crop = (14, 14, 210, 210)
        mask = _read(Path(str(file).replace("rgb-", "vseg-")), crop, 64, True)
        theirs.append(describe(_read(file, crop, 64), ~mask.any(axis=-1)))
    if not theirs:
        pytest.skip(f"no published frames in {samples / 'shapestacks'}")
    ours = [describe(sample.image / 255, sample.labels == 0) for sample in _scenes.__wrapped__("shapestacks")]
    ratio = np.median(ours, axis=0) / np.mean(theirs, axis=0)
    assert (ratio > 0.7).all(), ratio
    assert (ratio < 1.5).all(), ratio


@needs_renderer
def test_towers_stand_on_the_published_floor_before_the_published_cameras() -> None:
    """Every camera sees the middle of the floor, in the lower part of its image."""
    x, y, height, tilt, heading = shapestacks.CAMERAS[0]
    assert (x, y, height, tilt, heading) == (-7, -7, 5, 75, -45)
    rng = np.random.default_rng(0)
    cameras = [shapestacks._sample_camera(rng) for _ in range(200)]
    seen = {tuple(camera.position) for camera in cameras}
    assert len(seen) == 16
    for camera in cameras[:20]:
        column, row, depth = camera.project(np.zeros((1, 3)), 1)[0]
        assert depth > 0
        assert 0.1 < column < 0.9
        assert 0.3 < row < 1


@needs_renderer
def test_some_rooms_show_one_wall() -> None:
    made = _scenes("objects-room")
    walls = np.array([[(sample.labels == wall).any() for wall in (2, 3)] for sample in made])
    assert walls[:, 0].all()  # a wall that is seen alone has label 2
    assert 0.1 < np.mean(~walls[:, 1]) < 0.5


@needs_renderer
def test_rooms_are_coloured_as_published(samples: Path) -> None:
    image = _read(samples / "preview/objects_room.png", (0, 0, 64, 64), 64, True)
    made = [sample.image / 255 for sample in _scenes("objects-room")]
    for column in (1, 2):
        theirs, ours = rgb_to_hsv(image)[..., column].mean(), [rgb_to_hsv(m)[..., column].mean() for m in made]
        assert min(ours) < theirs < max(ours)
    assert min(m.max(axis=-1).min() for m in made) > 0.05  # the room covers every pixel
