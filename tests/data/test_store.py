from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader, DistributedSampler

from cocanet.data.store import Store
from cocanet.data.store_writer import write_store
from tests.data.sources import NoiseSource, assert_same


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """23 samples in shards of 4: the last is short."""
    return write_store(NoiseSource(23), tmp_path_factory.mktemp("stores") / "shared", shard_size=4)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_store(NoiseSource(23), tmp_path / "store", shard_size=4)
    return tmp_path / "store"


def test_samples_and_metadata_come_back(shared: Store) -> None:
    source = NoiseSource(23)
    store = Store(shared.path)
    assert len(store) == 23
    assert store.recipe == {"noise": True, "seed": 0, "size": [5, 7]}
    assert store.background_labels == 2
    assert store.has_labels
    assert (store.meta.seed, store.meta.height, store.meta.width) == (0, 5, 7)
    assert store.bytes == sum(path.stat().st_size for path in store.path.glob("shard-*"))
    for i in range(23):
        assert_same(store[i], source[i])


@given(indices=st.lists(st.integers(0, 22), max_size=40))
def test_gather_equals_indexing(shared: Store, indices: list[int]) -> None:
    images, labels = shared.gather(np.array(indices, dtype=np.int64))
    assert images.shape == (len(indices), 5, 7, 3)
    for i, index in enumerate(indices):
        np.testing.assert_array_equal(images[i], shared[index].image)
        np.testing.assert_array_equal(labels[i], shared[index].labels)


def test_an_index_outside_is_named(shared: Store) -> None:
    for index in (-1, 23):
        with pytest.raises(IndexError, match=f"sample {index} of 23"):
            shared[index]
        with pytest.raises(IndexError, match=f"sample {index} of 23"):
            shared.gather(np.array([3, index]))


def test_samples_are_copies(shared: Store) -> None:
    before = shared[0].image.copy()
    shared[0].image[:] = 0
    shared.gather(np.array([0]))[0][:] = 0
    np.testing.assert_array_equal(shared[0].image, before)


def test_pickling_carries_the_path_and_not_the_pixels(shared: Store) -> None:
    shared.gather(np.arange(23))
    pickled = pickle.dumps(shared)
    assert len(pickled) < 10_000
    assert_same(pickle.loads(pickled)[17], shared[17])


class _Indexed:
    """A store as torch's own loader sees it: images with their index."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def __len__(self) -> int:
        return len(self.store)

    def __getitem__(self, index: int) -> tuple[int, np.ndarray]:
        return index, self.store[index].image


def test_torch_workers_and_distributed_samplers_share_a_store(shared: Store) -> None:
    shared.gather(np.arange(23))  # mapped before the fork, which must do no harm
    seen = []
    for rank in range(2):
        sampler = DistributedSampler(range(23), num_replicas=2, rank=rank, shuffle=True, drop_last=True)
        loader = DataLoader(_Indexed(shared), batch_size=4, sampler=sampler, num_workers=2)
        for indices, images in loader:
            seen += indices.tolist()
            np.testing.assert_array_equal(images.numpy(), shared.gather(indices.numpy())[0])
    assert len(seen) == len(set(seen)) == 22


def _truncate(folder: Path) -> None:
    path = folder / "shard-00002.images.npy"
    path.write_bytes(path.read_bytes()[:-5])


def _flip(name: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        data = bytearray((folder / name).read_bytes())
        data[len(data) // 2] ^= 4
        (folder / name).write_bytes(data)

    return damage


def _edit_meta(**fields: object) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        content = json.loads((folder / "meta.json").read_text()) | fields
        (folder / "meta.json").write_text(json.dumps(content))

    return damage


def _swap_shards(folder: Path) -> None:
    first, second = folder / "shard-00000.labels.npy", folder / "shard-00001.labels.npy"
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)


DAMAGES: list[tuple[Callable[[Path], object], str]] = [
    (_truncate, r"shard-00002\.images\.npy is damaged: expected 548 bytes, found 543"),
    (lambda folder: (folder / "shard-00005.factors.npz").unlink(), r"shard-00005\.factors\.npz is missing"),
    (_flip("shard-00001.images.npy"), r"shard-00001\.images\.npy was altered: expected sha256"),
    (_flip("shard-00001.labels.npy"), r"shard-00001\.labels\.npy was altered: expected sha256"),
    (_flip("shard-00003.factors.npz"), r"shard-00003\.factors\.npz was altered: expected sha256"),
    (_swap_shards, r"shard-0000[01]\.labels\.npy was altered"),
    (_edit_meta(background_labels=1), r"meta\.json was altered"),
    (_edit_meta(version=99), r"meta\.json has format version 99, expected 1"),
    (_edit_meta(format="tar"), r"meta\.json does not describe a store"),
    (lambda folder: (folder / "meta.json").write_text("{"), r"meta\.json is damaged: expected JSON"),
    (lambda folder: (folder / "meta.json").write_text("[]"), r"meta\.json does not describe a store"),
    (lambda folder: (folder / "meta.json").write_bytes(b"\xff\xfe\x00"), r"meta\.json is damaged"),
    (lambda folder: (folder / "meta.json").unlink(), r"is not a store: meta\.json is missing"),
]


def test_damage_is_one_line_that_names_the_file(folder: Path, tmp_path: Path) -> None:
    for number, (damage, message) in enumerate(DAMAGES):
        copy = tmp_path / str(number)
        shutil.copytree(folder, copy)
        damage(copy)
        with pytest.raises(ValueError, match=message) as caught:
            Store(copy)
        assert "\n" not in str(caught.value)


def test_a_folder_without_a_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nowhere is not a store"):
        Store(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="file is not a store but a file"):
        Store(tmp_path / "file")


def test_without_verify_only_sizes_are_checked(folder: Path) -> None:
    _flip("shard-00001.images.npy")(folder)
    store = Store(folder, verify=False)
    with pytest.raises(ValueError, match="was altered"):
        store.verify()
    _truncate(folder)
    with pytest.raises(ValueError, match="damaged"):
        Store(folder, verify=False)
