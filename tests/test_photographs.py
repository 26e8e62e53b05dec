"""`python -m tools.photographs`: which photograph is in which store, and that none is in two."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tools import photographs
from tools.photographs import Photographs, evenly, prepare

from cocanet.config import DataConfig
from cocanet.data.splits import open_split
from cocanet.data.store import Store
from cocanet.labels import UNLABELLED
from cocanet.paper_scores import data_set_of_recipe
from tests.data.readers.writers import write_birds, write_flowers

SPLITS = ("train", "validation", "test")


def plain(number: int) -> np.ndarray:
    """An image that says which it is."""
    return np.full((16, 16, 3), (number, 255 - number, 7), dtype=np.uint8)


def number_of(image: np.ndarray) -> int:
    return int(image[0, 0, 0])


@pytest.fixture
def published(tmp_path: Path) -> Photographs:
    """50 birds to train on, each fifth without a mask, 6 to test on; 30 flowers, a third to train on; 10 of the 17."""
    mask = np.zeros((16, 16), dtype=np.uint8)
    mask[4:12, 4:12] = 255
    masks = [None if index % 5 == 4 and index < 50 else mask for index in range(56)]
    birds = write_birds(
        tmp_path / "cub", [plain(i) for i in range(56)], masks, [(4.0, 4.0, 8.0, 8.0)] * 56, [0] * 50 + [1] * 6
    )
    flowers = write_flowers(tmp_path / "flowers", {number: plain(number) for number in range(1, 31)}, {})
    for folder, picture in (("images", plain), ("masks", lambda number: mask)):
        (tmp_path / "17" / folder).mkdir(parents=True)
        for number in range(10):
            Image.fromarray(picture(number)).save(tmp_path / "17" / folder / f"image_{number:04d}.png")
    return Photographs(birds, flowers, tmp_path / "17", tmp_path / "out", size=8)


def numbers(folder: Path) -> dict[str, list[int]]:
    return {
        split: [number_of(image) for image in Store(folder / split).gather(np.arange(len(Store(folder / split))))[0]]
        for split in SPLITS
    }


def test_birds(published):
    prepare(published)
    found = numbers(published.out / "birds")
    masked = [number for number in range(50) if number % 5 != 4]
    assert found["validation"] == [masked[place] for place in (0, 10, 20, 30)], "a tenth of those with a mask"
    assert found["train"] == [number for number in range(50) if number not in found["validation"]]
    assert found["test"] == list(range(50, 56))
    labels = Store(published.out / "birds" / "train").gather(np.arange(46))[1]
    unmarked = [number for number, map_ in zip(found["train"], labels, strict=True) if (map_ == UNLABELLED).all()]
    assert unmarked == [number for number in range(50) if number % 5 == 4]
    assert Store(published.out / "birds" / "train").recipe["segmented"] == 36


def test_flowers(published):
    prepare(published)
    found = numbers(published.out / "flowers")
    assert found["train"] == [number for number in range(1, 31) if number % 3 == 1], "the list tstid"
    assert found["validation"] == [0, 3, 6, 9]
    assert found["test"] == [1, 2, 4, 5, 7, 8]
    assert not Store(published.out / "flowers" / "train").has_labels
    for split in ("validation", "test"):
        store = Store(published.out / "flowers" / split)
        assert store.has_labels
        np.testing.assert_array_equal(np.unique(store.gather(np.arange(len(store)))[1]), [0, 1])


def test_the_stores_are_taken_as_they_are_and_recognised(published):
    prepare(published)
    for name in ("birds", "flowers"):
        for split in SPLITS:
            part = open_split(DataConfig(name), split, published.out / name)
            images = part.gather(np.arange(len(part)))[0]
            assert [number_of(image) for image in images] == numbers(published.out / name)[split]
            assert data_set_of_recipe(part.store.recipe) == name


def test_the_same_command_goes_on_and_a_wrong_folder_writes_nothing(published, monkeypatch):
    prepare(published)
    written = {path: path.stat().st_mtime_ns for path in published.out.rglob("*.npy")}
    prepare(published)
    assert {path: path.stat().st_mtime_ns for path in published.out.rglob("*.npy")} == written
    elsewhere = Photographs(published.birds, published.flowers17, published.flowers17, published.out / "new", size=8)
    with pytest.raises(ValueError, match="no folder jpg"):
        prepare(elsewhere)
    assert not elsewhere.out.exists()
    monkeypatch.setattr(photographs, "EVERY", 2)
    with pytest.raises(ValueError, match="flowers/validation"):
        prepare(published)


def test_evenly_spaced_places_are_different_and_reach_to_the_end():
    places = list(range(100, 1000))
    found = evenly(places, 320)
    assert len(set(found)) == 320
    assert set(np.diff(found)) == {2, 3}
    assert (found[0], found[-1]) == (100, 997)


def test_real_photographs(samples):
    paths = [samples / name for name in ("birds", "flowers", "flowers17")]
    if not all(path.is_dir() for path in paths):
        pytest.skip(f"not all of the photographs are in {samples}")
    chosen = Photographs(*paths, out=Path("unused"))
    counts = {name: len(source) for name, source in photographs.birds(chosen.birds).items()}
    assert counts == {"train": 9_680, "validation": 320, "test": 662}
    counts = {name: len(source) for name, source in photographs.flowers(chosen).items()}
    assert counts == {"train": 6_149, "validation": 141, "test": 282}


def test_moved_birds_lie_off_centre_in_crops_of_the_same_size(tmp_path):
    """Two birds with room on their left and above, one without; each bird is 8 pixels wide, its crop 12."""
    masks, places = [], [(20, 20), (24, 24), (2, 2)]
    for top, left in places:
        masks.append(np.zeros((34, 34), dtype=np.uint8))
        masks[-1][top : top + 8, left : left + 8] = 255
    boxes = [(float(left), float(top), 8.0, 8.0) for top, left in places]
    pictures = [np.full((34, 34, 3), number, dtype=np.uint8) for number in range(3)]
    stores = photographs.moved_birds(write_birds(tmp_path / "cub", pictures, masks, boxes, [1] * 3), size=12)
    moved, usual = stores["birds-moved"], stores["birds-unmoved"]
    assert len(moved) == len(usual) >= 2
    for index in range(len(moved)):
        assert number_of(moved[index].image) == number_of(usual[index].image)
        centres = [np.argwhere(store[index].labels == 1).mean(0) - 5.5 for store in (moved, usual)]
        assert np.abs(centres[0]).max() == pytest.approx(3, abs=1), "a quarter of 12 pixels, cut off by at most one"
        np.testing.assert_allclose(centres[1], 0, atol=0.6)


def test_fewer_training_images_are_evenly_spaced(published):
    prepare(Photographs(published.birds, published.flowers, published.flowers17, published.out, size=8, train=5))
    found = numbers(published.out / "flowers")
    assert found["train"] == [1, 7, 13, 19, 25]
    assert len(found["test"]) == 6
