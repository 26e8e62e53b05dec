"""Weights, run folders and stores that were made to mislead: one line that names the file, before anything is computed.

The checksums of all crafted files are right: anyone can compute one.
"""

from __future__ import annotations

import json
import shutil
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

from cocanet import presets
from cocanet.config import DataConfig, Preset
from cocanet.config.bounds import check_bounds
from cocanet.config.serialization import to_dict
from cocanet.data import store_format
from cocanet.data.store import Store
from cocanet.files import write_atomically
from cocanet.io.checksum import with_checksum
from cocanet.io.run_folder import RunFolder
from cocanet.io.trained import open_model
from cocanet.io.weights import KEY, read_weights, write_weights
from cocanet.models.build import build
from tests.tiny import small
from tests.train.runs import noise_store, tiny_settings

PRESET = Preset("tiny", small(), DataConfig("noise"))
DEEP = "[" * 100_000


def head(**changes: Any) -> dict[str, Any]:
    return {"version": 1, "preset": to_dict(PRESET), "notes": {}} | changes


def with_model(**changes: Any) -> dict[str, Any]:
    return head(preset=to_dict(PRESET) | {"model": to_dict(PRESET)["model"] | changes})


def refused(open_file: Callable[[], Any], path: Path, expected: str) -> None:
    """One line that begins with the file, soon, and without much memory."""
    tracemalloc.start()
    started = time.monotonic()
    try:
        with pytest.raises(ValueError, match=expected) as caught:
            open_file()
        assert tracemalloc.get_traced_memory()[1] < 2**25
    finally:
        tracemalloc.stop()
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)
    assert time.monotonic() - started < 20


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (DEEP, "nested too deeply"),
        ("null", "weights of version None"),
        (json.dumps(head(version=[])), r"weights of version \[\]"),
        (json.dumps(head(notes=[])), "notes that are list; expected a dictionary"),
        (json.dumps(head(preset=3)), "bad configuration"),
        (json.dumps(with_model(dim=60_000)), "of shape .* its model expects"),
        (json.dumps(with_model(dim=10**9)), "preset.model.dim is 1000000000; expected at most 65536"),
        (json.dumps(with_model(image_size=[60_000, 60_000])), "60000×60000; expected at most 4,194,304 cells"),
        (json.dumps(with_model(image_size=[60_000, 100])), "60000×100; expected at most 4,194,304 cells"),
        (json.dumps(with_model(levels=to_dict(PRESET)["model"]["levels"] * 50)), "100 entries; expected at most 64"),
        (json.dumps(head()).replace('"temperature": 1.0', '"temperature": NaN', 1), "it holds NaN"),
        (json.dumps(head()).replace('"temperature": 1.0', '"temperature": 1e999', 1), "is inf; expected|is not finite"),
        (json.dumps(head()).replace('"depth": 1', '"depth": 60000', 1), "depth is 60000; expected at most 256"),
        (json.dumps(head()).replace('"window": [4, 3]', '"window": [4000, 3000]', 1), "4000×3000; expected at most"),
    ],
)
def test_headers_of_weights(tmp_path, text, expected):
    tensors = {name: tensor.contiguous() for name, tensor in build(PRESET, seed=0).state_dict().items()}
    path = tmp_path / "w.safetensors"
    write_atomically(path, with_checksum(safetensors.torch.save(tensors, metadata={KEY: text})))
    refused(lambda: open_model(path), path, expected)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda tensor: tensor.fill_(torch.nan), "with values that are not finite"),
        (lambda tensor: tensor.fill_(torch.inf), "with values that are not finite"),
        (lambda tensor: tensor.to(torch.int32), "of type int32, its model expects float32"),
        (lambda tensor: tensor.to(torch.complex64), "of type complex64, its model expects float32"),
        (lambda tensor: tensor[:0], "of shape"),
    ],
)
def test_tensors_of_weights(tmp_path, change, expected):
    tensors = build(PRESET, seed=0).state_dict()
    name = sorted(tensors)[0]
    write_weights(tmp_path / "w.safetensors", PRESET, tensors | {name: change(tensors[name].clone())}, {})
    refused(lambda: open_model(tmp_path / "w.safetensors"), tmp_path / "w.safetensors", expected)


@pytest.mark.parametrize("place", [0.01, 0.3, 0.6, 0.99])
def test_one_wrong_bit_of_weights(tmp_path, place):
    path = tmp_path / "w.safetensors"
    write_weights(path, PRESET, build(PRESET, seed=0).state_dict(), {"scores": {"ari": float("nan")}})
    assert read_weights(path).notes == {"scores": {"ari": None}}
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] ^= 2
    path.write_bytes(content)
    with pytest.raises(ValueError, match=str(path)) as caught:
        read_weights(path)
    assert "\n" not in str(caught.value)


def test_all_presets_are_within_the_bounds():
    for name in presets.PUBLISHED:
        check_bounds(to_dict(presets.find(name).model), name)
    for name in presets.PRESETS:
        for suffix in presets.VARIANTS:
            check_bounds(to_dict(presets.find(f"{name}-{suffix}").model), name)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    return noise_store(tmp_path_factory.mktemp("crafted") / "store", count=4)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"count": 10**10}, "is damaged: 10000000000 images"),
        ({"shard_size": 10**10, "count": 10**10}, r"expected \d+ bytes, found"),
        ({"height": 10**6}, "1000000 pixels; expected at most"),
        ({"height": 0}, "is damaged: 4 images of 12×0 pixels"),
        ({"shard_size": -1}, "-1 in each of 1 shards"),
        (
            {"shards": [{"images.npy": {"bytes": 5, "sha256": "0"}}]},
            "shard 0 has images.npy; expected images.npy, labels",
        ),
        ({"shards": 5}, "bad configuration: shards"),
        ({"recipe": []}, "bad configuration: recipe"),
        ({"background_labels": "many"}, "bad configuration: background_labels"),
    ],
)
def test_metadata_of_stores(tmp_path, made, changes, expected):
    store = shutil.copytree(made, tmp_path / "store")
    content = json.loads((store / "meta.json").read_text())
    del content["sha256"]
    content |= changes
    content["sha256"] = store_format._digest(content)
    (store / "meta.json").write_text(json.dumps(content))
    refused(lambda: Store(store, verify=False), store, expected)


def test_arrays_of_stores(tmp_path, made, monkeypatch):
    """Headers of arrays that claim other sizes, and a factor file that would fill the memory."""
    store = Store(shutil.copytree(made, tmp_path / "store"))
    images, factors = (store.path / f"shard-00000.{part}" for part in ("images.npy", "factors.npz"))
    content = images.read_bytes()
    for claim in (b"(4, 8, 12, 3)", b"(9, 8, 12, 3)"), (b"'|u1'", b"'|O8'"), (b"{", b"["):
        images.write_bytes(content.replace(*claim, 1))
        with pytest.raises(ValueError, match=r"images\.npy is damaged"):
            Store(store.path, verify=False)[0]
    images.write_bytes(content)
    monkeypatch.setattr(store_format, "MAX_DECODED_BYTES", 2**20)
    np.savez_compressed(factors, **{"values/a": np.zeros(2**20, dtype=np.uint8)})
    refused(lambda: store_format.ShardFactors(factors, 4), factors, "its arrays take .* bytes; expected at most")


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("run.json", DEEP),
        ("run.json", '{"format": "cocanet-run", "version": 1, "preset": {"model": {"dim": 1e99}}}'),
        ("run.json", '{"format": "cocanet-run", "version": 1, "preset": [], "run": 5, "data": null}'),
        ("run.json", "\xff\xfe"),
    ],
)
def test_settings_of_runs(tmp_path, made, file, content):
    RunFolder(tmp_path).write_settings(tiny_settings(made))
    (tmp_path / file).write_bytes(content.encode("latin-1"))
    refused(lambda: RunFolder(tmp_path).read_settings(), tmp_path, "damaged|bad configuration|run.json")
