"""A store as other libraries' data sets: torch's, and Hugging Face's (extra `datasets`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from cocanet.data.store import Store
from cocanet.extras import extra


class TorchDataset(Dataset[Any]):
    """Image (3 h w, floats in [0, 1]) and labels (h w) of each sample, for `torch.utils.data.DataLoader`.

    A loader that asks for a whole batch gets it in one go. Factors, of which every image has another number, stay in
    the store: `dataset.store[index].factors`.
    """

    def __init__(self, store: Store) -> None:
        self.store = store

    def __len__(self) -> int:
        return len(self.store)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"sample {index} of {len(self)} in {self.store.path}")
        return self.__getitems__([index % len(self)])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Tensor]]:
        images, labels = self.store.gather(np.asarray(indices, dtype=np.int64))
        floats = torch.from_numpy(images).permute(0, 3, 1, 2).float().div_(255)
        numbers = torch.from_numpy(labels).long()
        return [{"image": image, "labels": label} for image, label in zip(floats, numbers, strict=True)]


def as_hugging_face(store: Store, cache: Path | str | None = None) -> Any:
    """A `datasets.Dataset` with the columns image, labels (where there are any) and the factors' names.

    Images and label maps are PNG pictures. It is written once, to Hugging Face's own cache or to `cache`, and mapped
    from there, so it may be larger than memory.
    """
    datasets = extra("datasets", "datasets", "Hugging Face data sets are made")
    columns = {"image": datasets.Image()}
    if store.has_labels:
        columns["labels"] = datasets.Image()
    for name, values in store[0].factors.items():
        columns[name] = _feature(datasets, np.asarray(values))
    folder = None if cache is None else str(cache)
    # Names as a tuple: a list would be taken for shards to read in turn.
    features = datasets.Features(columns)
    return datasets.Dataset.from_generator(
        _samples, features=features, cache_dir=folder, gen_kwargs={"store": store, "names": tuple(columns)}
    )


def _feature(datasets: Any, values: np.ndarray) -> Any:
    """A list over the objects of an image, of numbers or of lists of numbers."""
    feature: Any = datasets.Value(str(values.dtype))
    for _ in range(values.ndim):
        feature = datasets.Sequence(feature)
    return feature


def _samples(store: Store, names: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    for index in range(len(store)):
        image, labels, factors = store[index]
        values = {"image": image, "labels": labels, **factors}
        yield {name: values[name] for name in names}
