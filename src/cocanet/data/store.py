"""The store that every data set is written to: read-only, memory-mapped, possibly larger than memory."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Int, UInt8

from cocanet.data.sample import Sample
from cocanet.data.store_format import ShardFactors, StoreMeta, check_hash, check_sizes, damaged, read_meta, shard_file

if TYPE_CHECKING:
    from cocanet.data.converters import TorchDataset


class Store:
    """A finished store as a source of samples.

    Opening checks the hash of every file against `meta.json`; `verify=False` checks sizes only, which is instant. A
    store may be pickled or forked into any number of workers: each maps the shards that it reads.
    """

    def __init__(self, path: Path | str, *, verify: bool = True) -> None:
        self.path = Path(path)
        self.meta: StoreMeta = read_meta(self.path)
        if not self.meta.complete:
            raise ValueError(
                f"{self.path} is unfinished: {self.meta.finished} of {self.meta.count} samples; "
                "run the command that started it again to continue"
            )
        check_sizes(self.path, self.meta)
        self._forget()
        if verify:
            self.verify()

    def _forget(self) -> None:
        self._arrays: dict[tuple[int, str], np.ndarray] = {}
        self._factors: dict[int, ShardFactors] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "meta": self.meta}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.path, self.meta = state["path"], state["meta"]
        self._forget()

    @property
    def recipe(self) -> Mapping[str, Any]:
        return self.meta.recipe

    @property
    def background_labels(self) -> int:
        return self.meta.background_labels

    @property
    def has_labels(self) -> bool:
        return self.meta.has_labels

    @property
    def bytes(self) -> int:
        """Size of all shards on disk."""
        return sum(file.bytes for shard in self.meta.shards for file in (shard or {}).values())

    def __len__(self) -> int:
        return self.meta.count

    def __getitem__(self, index: int) -> Sample:
        if not 0 <= index < len(self):
            raise IndexError(f"sample {index} of {len(self)} in {self.path}")
        shard, row = divmod(int(index), self.meta.shard_size)
        if shard not in self._factors:
            path = shard_file(self.path, shard, "factors.npz")
            self._factors[shard] = ShardFactors(path, self.meta.samples_in(shard))
        return Sample(
            np.array(self._array(shard, "images.npy")[row]),
            np.array(self._array(shard, "labels.npy")[row]),
            self._factors[shard][row],
        )

    def gather(self, indices: Int[np.ndarray, " b"]) -> tuple[UInt8[np.ndarray, "b h w 3"], UInt8[np.ndarray, "b h w"]]:
        """Images and labels of many samples, in the order of `indices`."""
        outside = indices[(indices < 0) | (indices >= len(self))]
        if len(outside):
            raise IndexError(f"sample {outside[0]} of {len(self)} in {self.path}")
        meta = self.meta
        images = np.empty((len(indices), meta.height, meta.width, 3), dtype=np.uint8)
        labels = np.empty((len(indices), meta.height, meta.width), dtype=np.uint8)
        shards, rows = np.divmod(indices, meta.shard_size)
        for shard in np.unique(shards).tolist():
            here = np.flatnonzero(shards == shard)
            images[here] = self._array(shard, "images.npy")[rows[here]]
            labels[here] = self._array(shard, "labels.npy")[rows[here]]
        return images, labels

    def as_torch(self) -> TorchDataset:
        """A `torch.utils.data.Dataset` of images and labels."""
        from cocanet.data.converters import TorchDataset

        return TorchDataset(self)

    def as_hugging_face(self, cache: Path | str | None = None) -> Any:
        """A `datasets.Dataset` of images, labels and factors, written to Hugging Face's cache or to `cache`."""
        from cocanet.data.converters import as_hugging_face

        return as_hugging_face(self, cache)

    def _array(self, shard: int, part: str) -> np.ndarray:
        if (shard, part) not in self._arrays:
            path = shard_file(self.path, shard, part)
            expected: tuple[int, ...] = (self.meta.samples_in(shard), self.meta.height, self.meta.width)
            if part == "images.npy":
                expected = (*expected, 3)
            with damaged(path):
                array = np.load(path, mmap_mode="r", allow_pickle=False)
            if array.shape != expected or array.dtype != np.uint8:
                raise ValueError(f"{path} is damaged: expected uint8 {expected}, found {array.dtype} {array.shape}")
            # A plain view: indexing a memmap is several times slower.
            self._arrays[shard, part] = array.view(np.ndarray)
        return self._arrays[shard, part]

    def verify(self) -> None:
        """Compare the hash of every file; ValueError names the first that differs."""
        files = [
            (shard_file(self.path, shard, part), expected)
            for shard, entry in enumerate(self.meta.shards)
            for part, expected in (entry or {}).items()
        ]
        with ThreadPoolExecutor(max_workers=4) as pool:
            for _ in pool.map(check_hash, *zip(*files, strict=True)):
                pass
