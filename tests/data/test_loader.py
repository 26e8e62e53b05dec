from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cocanet.data.generators.tetrominoes import Tetrominoes
from cocanet.data.loader import (
    Batch,
    Loader,
    LoaderConfig,
    Position,
    Stretch,
    crop_offsets,
    next_stretch,
    pad_and_crop,
)
from cocanet.data.store_writer import write_store


class _Numbered:
    """Sample i is an image full of i, its middle pixel labelled i as well."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def gather(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        images = np.broadcast_to(indices[:, None, None, None], (len(indices), 4, 4, 3)).astype(np.uint8)
        return images, images[..., 0].copy()


def _loader(count: int = 20, **options: Any) -> Loader:
    return Loader(_Numbered(count), LoaderConfig(**({"batch_size": 6} | options)))


def _take(loader: Loader, number: int) -> list[Batch]:
    return list(itertools.islice(iter(loader), number))


def _flat(lists: Iterable[list[int]]) -> list[int]:
    return list(itertools.chain.from_iterable(lists))


def _seen(batches: list[Batch]) -> list[list[int]]:
    return [batch.indices.tolist() for batch in batches]


def test_a_batch_is_floats_with_labels_and_indices() -> None:
    (batch,) = _take(_loader(), 1)
    assert batch.images.shape == (6, 3, 4, 4)
    assert batch.images.dtype == torch.float32
    assert batch.images.is_contiguous()
    torch.testing.assert_close(batch.images[:, 0, 0, 0] * 255, batch.indices.float())
    assert (batch.labels == batch.indices[:, None, None]).all()


def test_an_epoch_is_a_permutation_and_the_next_another() -> None:
    loader = _loader(count=18)
    first, second = _seen(_take(loader, 6))[:3], _seen(_take(_loader(count=18), 6))[3:]
    assert sorted(_flat(first)) == sorted(_flat(second)) == list(range(18))
    assert first != second
    assert _seen(_take(_loader(count=18, seed=1), 3)) != first
    assert _seen(_take(_loader(count=18, shuffle=False), 3)) == [list(range(i, i + 6)) for i in (0, 6, 12)]


def test_drop_last() -> None:
    assert len(_loader()) == 3
    assert [len(b) for b in _seen(list(_loader().epoch()))] == [6, 6, 6]
    kept = _loader(drop_last=False)
    assert len(kept) == 4
    batches = _seen(list(kept.epoch()))
    assert [len(b) for b in batches] == [6, 6, 6, 2]
    assert sorted(_flat(batches)) == list(range(20))


@settings(max_examples=40)
@given(
    count=st.integers(1, 30),
    batch=st.integers(1, 8),
    steps=st.integers(1, 12),
    drop=st.booleans(),
    at=st.integers(0, 30),
)
def test_stretches_cover_epochs_in_order(count: int, batch: int, steps: int, drop: bool, at: int) -> None:
    batch, position = min(batch, count), Position(3, min(at, count))
    for _ in range(steps):
        stretch = next_stretch(position, count, batch, drop)
        same = stretch.epoch == position.epoch
        assert stretch.start == (position.sample if same else 0)
        assert same or stretch.epoch == position.epoch + 1
        assert 0 < stretch.stop - stretch.start <= batch
        assert stretch.stop <= count
        if drop:
            assert stretch.stop - stretch.start == batch
        position = Position(stretch.epoch, stretch.stop)


def test_resuming_equals_no_interruption() -> None:
    options: dict[str, Any] = {"pad": 1, "drop_last": False}
    whole = _take(_loader(**options), 12)
    for steps in (0, 1, 2, 3, 7):
        stopped = _loader(**options)
        _take(stopped, steps)
        resumed = _loader(**options)
        resumed.load_state(stopped.state())
        for expected, found in zip(whole[steps:], _take(resumed, 12 - steps), strict=True):
            for a, b in zip(expected, found, strict=True):
                torch.testing.assert_close(a, b, rtol=0, atol=0)


def test_resuming_at_any_sample_and_with_another_batch_size() -> None:
    order = _flat(_seen(_take(_loader(count=20, batch_size=4), 5)))
    resumed = _loader(count=20, batch_size=5, drop_last=False)
    resumed.load_state({"seed": 0, "count": 20, "epoch": 0, "sample": 7})
    assert _flat(_seen(list(resumed.epoch()))) == order[7:]
    assert resumed.state() == {"seed": 0, "count": 20, "epoch": 0, "sample": 20}


def test_state_is_of_batches_handed_out_not_of_those_made_ahead() -> None:
    loader = _loader(prefetch=5)
    batches = iter(loader)
    next(batches)
    time.sleep(0.05)
    assert loader.position == Position(0, 6)


def test_ranks_share_a_batch_without_overlap_and_change_it_alike() -> None:
    for pad in (0, 1):
        alone = _take(_loader(pad=pad), 4)
        ranks = [_take(_loader(pad=pad, rank=r, world_size=3), 4) for r in range(3)]
        for step, whole in enumerate(alone):
            for rank in range(3):
                for expected, found in zip(whole[:3], ranks[rank][step][:3], strict=True):
                    torch.testing.assert_close(found, expected[rank::3], rtol=0, atol=0)


def test_without_drop_last_ranks_cover_every_sample_once() -> None:
    seen = [_flat(_seen(list(_loader(count=19, drop_last=False, rank=r, world_size=3).epoch()))) for r in range(3)]
    assert sorted(_flat(seen)) == list(range(19))
    assert max(map(len, seen)) - min(map(len, seen)) <= 1


def test_crops_move_image_and_labels_together(tmp_path: Any) -> None:
    data = write_store(Tetrominoes(64, seed=0), tmp_path / "store")
    plain = _take(Loader(data, LoaderConfig(32, seed=1)), 1)[0]
    moved = _take(Loader(data, LoaderConfig(32, seed=1, pad=3)), 1)[0]
    assert not torch.equal(plain.images, moved.images)
    shown = moved.images.amax(dim=1) > 0
    assert torch.equal(shown, moved.labels > 0)  # pieces are coloured on black, so pixels and labels must agree


@pytest.mark.parametrize("shuffle", [True, False])
def test_every_epoch_crops_each_sample_anew(shuffle: bool) -> None:
    """Without shuffling, a sample has the same place in every epoch."""
    loader = Loader(Tetrominoes(64, seed=0), LoaderConfig(64, seed=1, pad=3, shuffle=shuffle))
    first, second = (batch.images[batch.indices.argsort()] for batch in _take(loader, 2))
    same = (first == second).flatten(1).all(dim=1)
    assert same.float().mean() < 0.2  # one in 49 by chance, and more where a shift shows no change


def test_a_generator_can_be_loaded_from_directly() -> None:
    (batch,) = _take(Loader(Tetrominoes(100, seed=0), LoaderConfig(8)), 1)
    expected, _ = Tetrominoes(100, seed=0).gather(batch.indices.numpy())
    np.testing.assert_array_equal((batch.images * 255).round().byte().permute(0, 2, 3, 1).numpy(), expected)


def test_leaving_a_loop_ends_the_thread_and_errors_reach_the_caller() -> None:
    for _ in _loader():
        break
    batches = iter(_loader())
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    assert not [t for t in threading.enumerate() if t.name.startswith("loader") and t.is_alive()]

    class Broken(_Numbered):
        def gather(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            raise ValueError("shard-00000 is damaged")

    with pytest.raises(ValueError, match="shard-00000 is damaged"):
        next(iter(Loader(Broken(10), LoaderConfig(2))))


def test_mistakes_are_named() -> None:
    for options, message in (
        ({"batch_size": 0}, "batch_size must be at least 1, not 0"),
        ({"pad": -1}, "pad must be at least 0, not -1"),
        ({"rank": 2, "world_size": 2}, "rank must be 0 to 1, not 2"),
        ({"world_size": 4}, "batch_size 6 does not divide among 4 ranks"),
        ({"count": 5}, "a batch of 6 needs more than 5 samples"),
        ({"count": 0, "drop_last": False}, "0 samples"),
    ):
        with pytest.raises(ValueError, match=message):
            _loader(**options)
    good = {"seed": 0, "count": 20, "epoch": 0, "sample": 0}
    for wrong, message in (
        ({"seed": 4}, "started with seed 4, this loader has 0"),
        ({"count": 21}, "started with count 21, this loader has 20"),
        ({"sample": 21}, "outside of 20 samples"),
    ):
        with pytest.raises(ValueError, match=message):
            _loader().load_state(good | wrong)


def test_stretch_names_its_epoch() -> None:
    assert next_stretch(Position(0, 18), 20, 6, drop_last=True) == Stretch(1, 0, 6)
    assert next_stretch(Position(0, 18), 20, 6, drop_last=False) == Stretch(0, 18, 20)


@settings(max_examples=30)
@given(
    size=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    pad=st.integers(0, 4),
    batch=st.integers(0, 4),
    seed=st.integers(0, 1000),
)
def test_agrees_with_numpy_padding_and_slicing(size: tuple[int, int], pad: int, batch: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    height, width = size
    images = rng.integers(0, 256, (batch, height, width, 3), dtype=np.uint8)
    offsets = rng.integers(0, 2 * pad + 1, (batch, 2))
    found = pad_and_crop(torch.from_numpy(images), torch.from_numpy(offsets), pad)
    labels = pad_and_crop(torch.from_numpy(images[..., 0].copy()), torch.from_numpy(offsets), pad)
    padded = np.pad(images, ((0, 0), (pad, pad), (pad, pad), (0, 0)), mode="edge")
    for i, (top, left) in enumerate(offsets):
        expected = padded[i, top : top + height, left : left + width]
        np.testing.assert_array_equal(found[i].numpy(), expected)
        np.testing.assert_array_equal(labels[i].numpy(), expected[..., 0])


def test_the_middle_offset_changes_nothing() -> None:
    images = torch.rand(2, 8, 8, 3)
    torch.testing.assert_close(pad_and_crop(images, torch.full((2, 2), 3), 3), images, rtol=0, atol=0)


def test_offsets_are_fresh_uniform_and_seeded() -> None:
    offsets = crop_offsets(5, np.arange(7000), pad=3)
    assert offsets.shape == (7000, 2)
    for axis in range(2):
        counts = torch.bincount(offsets[:, axis], minlength=7)
        assert len(counts) == 7
        assert counts.min() > 880
        assert counts.max() < 1120
    torch.testing.assert_close(crop_offsets(5, np.array([6999, 12]), pad=3), offsets[[6999, 12]])
    assert not torch.equal(crop_offsets(6, np.arange(7000), pad=3), offsets)


def test_offsets_stay_within_the_padding() -> None:
    for pad in (0, 1):
        assert crop_offsets(0, np.arange(500), pad=pad).unique().tolist() == list(range(2 * pad + 1))
