"""A store as PNG files, in torch's loader and as a Hugging Face data set: always the same bytes."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from cocanet.data.generators import make_scenes
from cocanet.data.readers import open_source
from cocanet.data.store_writer import write_store
from tests.small_runs import Squares


def test_torch_loader(tmp_path):
    store = write_store(Squares(10), tmp_path / "store", shard_size=4)
    dataset = store.as_torch()
    assert isinstance(dataset, Dataset)
    order = [7, 2, 9, 0]
    (batch,) = DataLoader(dataset, batch_size=4, sampler=order)
    assert (batch["image"].dtype, batch["labels"].dtype) == (torch.float32, torch.int64)
    for place, index in enumerate(order):
        sample = store[index]
        np.testing.assert_array_equal(batch["image"][place].permute(1, 2, 0).numpy() * 255, sample.image)
        np.testing.assert_array_equal(batch["labels"][place], sample.labels)
    torch.testing.assert_close(dataset[-1]["image"], dataset[9]["image"])
    with pytest.raises(IndexError, match="sample 10 of 10"):
        dataset[10]
    torch.testing.assert_close(pickle.loads(pickle.dumps(dataset))[3], dataset[3])  # as spawned workers get it


def test_hugging_face_and_back(tmp_path):
    pytest.importorskip("datasets", reason="datasets is not installed")
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    store = write_store(make_scenes("tetrominoes", count=6, seed=5), tmp_path / "store")
    made = store.as_hugging_face(tmp_path / "cache")
    assert made.column_names == ["image", "labels", *store[0].factors]
    for index in range(6):
        sample, row = store[index], made[index]
        np.testing.assert_array_equal(np.asarray(row["image"]), sample.image)
        np.testing.assert_array_equal(np.asarray(row["labels"]), sample.labels)
        for name, values in sample.factors.items():
            np.testing.assert_array_equal(row[name], values)
    made.to_parquet(tmp_path / "scenes.parquet")
    again = open_source("parquet", tmp_path / "scenes.parquet", size=32, masks="labels")
    for index in range(6):
        np.testing.assert_array_equal(again[index].image, store[index].image)
        np.testing.assert_array_equal(again[index].labels, store[index].labels)


def test_a_store_without_labels_has_no_such_column(tmp_path):
    pytest.importorskip("datasets", reason="datasets is not installed")
    store = write_store(Squares(3, has_labels=False), tmp_path / "store")
    assert store.as_hugging_face(tmp_path / "cache").column_names == ["image"]
