"""Which images train, validate and test."""

from __future__ import annotations

import numpy as np
import pytest

from cocanet.config import DataConfig
from cocanet.data import splits
from cocanet.data.splits import fingerprint, open_split
from cocanet.data.store_writer import write_store
from tests.data.sources import NoiseSource, OwnImages

TETROMINOES = DataConfig("tetrominoes")
FROZEN = {
    "tetrominoes": "fe5269b7339b88bf602bdb9024b5c76da48a4d8dee76ba48402140b75893e380",
    "multi-dsprites": "53d20f83256a63de38b56c2a083cbc7216e4bd7e09135a8f0dabef036ed47e98",
}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("COCANET_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("name", FROZEN)
def test_the_test_split_is_frozen(name):
    """If this fails, scores of older versions can no longer be compared: do not change the hash lightly."""
    images = open_split(DataConfig(name), "test")
    assert len(images) == 2000
    assert fingerprint(images) == FROZEN[name]


def test_generated_splits_share_no_image(monkeypatch):
    monkeypatch.setattr(splits, "TEST_IMAGES", 50)
    monkeypatch.setattr(splits, "VALIDATION_IMAGES", 50)
    seen = set()
    for split in ("train", "validation", "test"):
        images = open_split(TETROMINOES, split, images=50)
        seen |= {image.tobytes() for image in images.gather(np.arange(50))[0]}
    assert len(seen) == 150


def test_scenes_are_made_once(cache, monkeypatch):
    monkeypatch.setattr(splits, "VALIDATION_IMAGES", 20)
    first = open_split(TETROMINOES, "validation").gather(np.arange(20))
    monkeypatch.setattr("cocanet.data.cache.write_store", lambda *args, **options: pytest.fail("made again"))
    second = open_split(TETROMINOES, "validation").gather(np.arange(20))
    np.testing.assert_array_equal(first[0], second[0])
    assert [path.name for path in cache.iterdir()] == ["tetrominoes-v1-validation-20"]


def test_the_fingerprint_sees_every_pixel_and_label(tmp_path):
    class Changed(NoiseSource):
        def __getitem__(self, index):
            sample = super().__getitem__(index)
            if index == 3:
                getattr(sample, self.part)[4, 6] ^= 1
            return sample

    plain = fingerprint(write_store(NoiseSource(9), tmp_path / "plain", shard_size=4))
    assert fingerprint(write_store(NoiseSource(9), tmp_path / "again", shard_size=2)) == plain
    for part in ("image", "labels"):
        Changed.part = part
        assert fingerprint(write_store(Changed(9), tmp_path / part)) != plain


def test_a_store_is_divided_in_its_order(tmp_path):
    for count, sizes in ((9, (9, 9, 9)), (30, (24, 3, 3)), (5000, (4180, 320, 500))):
        store = write_store(NoiseSource(count, size=(2, 2)), tmp_path / str(count))
        parts = [open_split(TETROMINOES, split, store.path) for split in ("train", "validation", "test")]
        assert tuple(len(part) for part in parts) == sizes
        if count >= 10:
            rows = np.concatenate([part.gather(np.arange(len(part)))[0] for part in parts])
            np.testing.assert_array_equal(rows, store.gather(np.arange(count))[0])


def test_stores_side_by_side_are_taken_as_they_are(tmp_path):
    for seed, (name, count) in enumerate((("train", 20), ("val", 5), ("test", 6))):
        write_store(NoiseSource(count, seed=seed), tmp_path / name)
    found = [len(open_split(TETROMINOES, split, tmp_path)) for split in ("train", "validation", "test")]
    assert found == [20, 5, 6]


def test_a_test_store_is_limited_to_the_number_of_the_protocol(tmp_path, monkeypatch):
    monkeypatch.setattr(splits, "TEST_IMAGES", 20)
    for count, taken in ((7, 7), (30, 20)):
        folder = tmp_path / str(count)
        for name in ("train", "validation", "test"):
            store = write_store(NoiseSource(count), folder / name)
        found = open_split(TETROMINOES, "test", folder)
        assert len(found) == taken
        np.testing.assert_array_equal(found.gather(np.arange(taken))[0], store.gather(np.arange(taken))[0])
        assert len(open_split(TETROMINOES, "train", folder)) == count


class SortedImages(OwnImages):
    """Half of one kind, half of another, sorted by name."""

    def __getitem__(self, index):
        sample = super().__getitem__(index)
        sample.image[:] = index * 2 // self.count
        sample.image[0, 0] = (*divmod(index, 256), 0)
        return sample


def test_a_users_images_are_shuffled_before_they_are_divided(tmp_path):
    write_store(SortedImages(300), tmp_path / "store")

    def parts():
        found = [open_split(TETROMINOES, split, tmp_path / "store") for split in ("train", "validation", "test")]
        return [part.gather(np.arange(len(part)))[0] for part in found]

    first, again = parts(), parts()
    assert [len(part) for part in first] == [240, 30, 30]
    assert len({image.tobytes() for part in first for image in part}) == 300, "every image is in one part"
    for part, same in zip(first, again, strict=True):
        np.testing.assert_array_equal(part, same)
        assert 0.2 < part[:, 1, 1, 0].mean() < 0.8, "of both kinds"
    numbers = first[2][:5, 0, 0, :2].astype(int) @ [256, 1]
    assert numbers.tolist() == [164, 180, 259, 255, 218], "the division is frozen"


def test_published_and_generated_stores_keep_their_order(tmp_path):
    store = write_store(NoiseSource(40), tmp_path / "store")
    parts = [open_split(TETROMINOES, split, tmp_path / "store") for split in ("train", "validation", "test")]
    images = np.concatenate([part.gather(np.arange(len(part)))[0] for part in parts])
    np.testing.assert_array_equal(images, store.gather(np.arange(40))[0])


@pytest.mark.parametrize("source", [NoiseSource, OwnImages])
def test_what_is_taken_from_train_is_not_trained_on(tmp_path, source):
    cases = {None: (32, 4, 4), "test": (36, 4, 7), "validation": (36, 7, 4), "val": (36, 7, 4)}
    for beside, sizes in cases.items():
        folder = tmp_path / str(beside)
        store = write_store(source(40), folder / "train")
        if beside:
            write_store(NoiseSource(7, seed=9), folder / beside)
        parts = [open_split(TETROMINOES, split, folder) for split in ("train", "validation", "test")]
        assert tuple(len(part) for part in parts) == sizes
        images = [{image.tobytes() for image in part.gather(np.arange(len(part)))[0]} for part in parts]
        assert not images[0] & (images[1] | images[2])
        of_train = {image.tobytes() for image in store.gather(np.arange(40))[0]}
        assert len(of_train) == 40
        assert of_train <= set.union(*images), "every image has a use"


def test_a_few_images_both_train_and_validate(tmp_path):
    write_store(NoiseSource(9), tmp_path / "train")
    assert [len(open_split(TETROMINOES, split, tmp_path)) for split in ("train", "validation")] == [9, 9]


def test_photographs_are_not_generated():
    for name in ("birds", "flowers"):
        with pytest.raises(ValueError, match=rf"^{name} are photographs.*`coca import {name} DIR --out STORE`.*--data"):
            open_split(DataConfig(name), "train")


def test_samples_outside_of_a_part_are_refused(tmp_path):
    write_store(NoiseSource(30), tmp_path / "store")
    part = open_split(TETROMINOES, "train", tmp_path / "store")
    with pytest.raises(IndexError, match="sample 24 of 24"):
        part.gather(np.array([0, 24]))


def test_missing_and_foreign_folders(tmp_path):
    with pytest.raises(ValueError, match="does not exist"):
        open_split(TETROMINOES, "train", tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"is not a store: meta\.json is missing"):
        open_split(TETROMINOES, "train", tmp_path)
