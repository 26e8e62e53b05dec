"""Kept features: every image's own, computed once, whatever interrupts it, and within a limit."""

from __future__ import annotations

import numpy as np
import pytest

from cocanet.data import feature_cache
from cocanet.data.feature_cache import BLOCK, with_features
from cocanet.data.loader import Loader, LoaderConfig
from cocanet.data.store import Store
from cocanet.data.store_writer import write_store
from cocanet.data.views import Part, Resized, store_of
from tests.small_runs import Squares

COUNT = 2 * BLOCK + 5


class MeanColours:
    """A network of three numbers an image, which counts its images and may fail."""

    values = 3

    def __init__(self, name: str = "one", fails_after: int = 10**9) -> None:
        self.name, self.left, self.seen = name, fails_after, 0

    def digest(self) -> str:
        return self.name * 16

    def packed(self, images: np.ndarray) -> np.ndarray:
        if self.seen >= self.left:
            raise KeyboardInterrupt
        self.seen += len(images)
        return images.mean((1, 2)).astype(np.float16)


@pytest.fixture
def images(tmp_path):
    write_store(Squares(COUNT, size=16), tmp_path / "store")
    store = Store(tmp_path / "store")
    return Part(store, 0, COUNT, np.random.default_rng(0).permutation(COUNT))


def kept(images, network):
    return with_features(images, store_of(images), network)


def test_an_interrupted_run_goes_on_where_it_was(images):
    first = MeanColours(fails_after=BLOCK)
    with pytest.raises(KeyboardInterrupt):
        kept(images, first)
    second, third = MeanColours(), MeanColours()
    found = kept(images, second)
    assert (first.seen, second.seen) == (BLOCK, COUNT - BLOCK)
    indices = np.array([COUNT - 1, 0, 70])
    expected = images.gather(indices)[0].mean((1, 2)).astype(np.float16)
    for view in (found, kept(images, third)):
        assert (view.gather_features(indices) == expected).all()
    assert third.seen == 0
    assert [path.suffix for path in (images.store.path.parent / "store-features").iterdir()] == [".f16"]


def test_batches_have_the_features_of_their_images(images):
    loader = Loader(kept(images, MeanColours()), LoaderConfig(16, seed=3))
    for batch, _ in zip(loader, range(3), strict=False):
        means = 255 * batch.images.double().mean((2, 3))
        np.testing.assert_allclose(batch.features.double(), means, rtol=1e-3)


def test_other_images_and_other_networks_have_other_files_and_old_ones_make_room(images, monkeypatch):
    folder = images.store.path.parent / "store-features"
    kept(images, MeanColours())
    kept(images, MeanColours("two"))
    kept(Resized(images, (8, 8)), MeanColours())
    assert len(list(folder.iterdir())) == 3
    monkeypatch.setattr(feature_cache, "MAX_BYTES", 6 * COUNT + 1)
    kept(images, MeanColours("three"))
    assert len(list(folder.iterdir())) == 1
    monkeypatch.setattr(feature_cache, "MAX_BYTES", 6 * 10)
    few = MeanColours("four")
    found = kept(images, few)
    assert few.seen == 10
    assert found.gather_features(np.array([9])) is not None
    assert found.gather_features(np.array([9, 10])) is None


def test_a_folder_that_cannot_be_written_to_keeps_none(images, monkeypatch):
    monkeypatch.setattr(feature_cache.os, "access", lambda path, mode: False)
    assert kept(images, MeanColours()) is images
