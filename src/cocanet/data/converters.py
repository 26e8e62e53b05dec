"""A store in other formats: PNG files, a torch data set, a Hugging Face data set (extra `datasets`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

from cocanet.data.store import Store
from cocanet.extras import extra
from cocanet.files import check_folder_writable
from cocanet.progress import QUIET, Progress


def export_images(store: Store, out: Path, progress: Progress = QUIET) -> int:
    """Write `images/000123.png` and, if the store has labels, `masks/000123.png` with the labels as values."""
    check_folder_writable(out)
    if out.exists() and any(out.iterdir()):
        raise ValueError(f"{out} is not empty; give another folder with --out")
    kinds = ("images", "masks") if store.has_labels else ("images",)
    for kind in kinds:
        (out / kind).mkdir(parents=True)
    with progress.bar("writing", len(store)) as done:
        for index in range(len(store)):
            for kind, pixels in zip(kinds, store.gather(np.arange(index, index + 1)), strict=False):
                Image.fromarray(pixels[0]).save(out / kind / f"{index:06d}.png")
            done(index + 1)
    return len(store)


class TorchDataset(Dataset[Any]):
    """Image (3 h w, floats in [0, 1]) and labels (h w) of each sample, for `torch.utils.data.DataLoader`.

    A whole batch is gathered at once. Factors stay in the store (`dataset.store[index].factors`), since their number
    differs between images.
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

    Images and label maps are PNG files. The data set is written once, to Hugging Face's cache or to `cache`, and mapped
    from there, so it may be larger than memory.
    """
    datasets = extra("datasets", "datasets", "Hugging Face data sets are made")
    columns = {"image": datasets.Image()}
    if store.has_labels:
        columns["labels"] = datasets.Image()
    for name, values in store[0].factors.items():
        columns[name] = _feature(datasets, np.asarray(values))
    folder = None if cache is None else str(cache)
    # A tuple, since a list would be taken for shards.
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
