"""Malformed weights, exported models, stores, run folders and labels: one line that names the file, or the values.

Half of the cases damage bytes. The others replace values of the JSON inside by values that no program writes, and put
checksums right afterwards. COCANET_FUZZ_CASES sets how many there are.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from cocanet.config import DataConfig, Preset
from cocanet.data import store_format
from cocanet.data.store import Store
from cocanet.explore import editing, labels
from cocanet.io import journal
from cocanet.io.checksum import with_checksum
from cocanet.io.run_folder import RunFolder
from cocanet.io.trained import open_model
from cocanet.io.weights import KEY, write_weights
from cocanet.models.build import build
from cocanet.train.checkpoint import read_checkpoint
from cocanet.train.loop import train
from tests.data.readers.test_fuzz import damage
from tests.tiny import small
from tests.train.runs import noise_store, tiny_settings

CASES = int(os.environ.get("COCANET_FUZZ_CASES", "40"))
SECONDS = 30.0
ODD: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 2, 10**10, 2**63, 1e308, 0.5, "", "x", "\ud800", "a\nb", [], [[]], {}, {"x": 1}),
    *([0] * 100, [10**6, 10**6], float("nan"), float("inf"), "9" * 5000),
)


class Target(NamedTuple):
    """Files to damage, and a function that reads all that a user would."""

    files: list[Path]
    read: Callable[[], Any]
    rewrite: Callable[[bytes, np.random.Generator], bytes]
    """The file with one value of its JSON replaced, and its checksum right."""


def replaced(plain: Any, generator: np.random.Generator) -> Any:
    """The same JSON with an odd value somewhere, or a key less."""
    if isinstance(plain, dict | list) and plain and generator.random() < 0.9:
        keys = list(plain) if isinstance(plain, dict) else list(range(len(plain)))
        key, changed = keys[int(generator.integers(len(keys)))], plain.copy()
        if isinstance(changed, dict) and generator.random() < 0.05:
            del changed[key]
        else:
            changed[key] = replaced(plain[key], generator)
        return changed
    return ODD[int(generator.integers(len(ODD)))]


def weights_bytes(content: bytes, generator: np.random.Generator) -> bytes:
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    if generator.random() < 0.8:
        inside = replaced(json.loads(header["__metadata__"][KEY]), generator)
        header["__metadata__"][KEY] = json.dumps(inside)
    else:
        header = replaced(header, generator)
    text = json.dumps(header).encode()
    changed = len(text).to_bytes(8, "little") + text + content[end:]
    try:
        return b"".join(with_checksum(changed))
    except (AttributeError, TypeError):
        return changed


def weights_target(root: Path) -> Target:
    preset = Preset("tiny", small(), DataConfig("noise"))
    write_weights(root / "w.safetensors", preset, build(preset, seed=0).state_dict(), {"step": 3, "scores": {"a": 1.0}})
    return Target([root / "w.safetensors"], lambda: open_model(root / "w.safetensors").step, weights_bytes)


def onnx_target(root: Path) -> Target:
    pytest.importorskip("onnxruntime", reason="running an exported model needs the extra cocanet[onnx]")
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    from cocanet.predict.onnx_segmenter import OnnxSegmenter

    path = root / "m.onnx"
    path.write_bytes((Path(__file__).parent / "fixtures" / "exported" / "three.onnx").read_bytes())

    def rewrite(content: bytes, generator: np.random.Generator) -> bytes:
        model = onnx.load_from_string(content)
        (entry,) = [entry for entry in model.metadata_props if entry.key == "cocanet"]
        entry.value = json.dumps(replaced(json.loads(entry.value), generator))
        changed: bytes = model.SerializeToString()
        return changed

    image = np.zeros((8, 12, 3), dtype=np.uint8)
    return Target([path], lambda: OnnxSegmenter(path).segment(image), rewrite)


def json_bytes(digest: Callable[[Any], str] | None) -> Callable[[bytes, np.random.Generator], bytes]:
    def rewrite(content: bytes, generator: np.random.Generator) -> bytes:
        plain = json.loads(content)
        plain.pop("sha256", None)
        plain = replaced(plain, generator)
        if digest is not None and isinstance(plain, dict):
            plain["sha256"] = digest(plain)
        return json.dumps(plain).encode()

    return rewrite


def store_target(root: Path) -> Target:
    store = noise_store(root / "store", count=4)

    def read() -> None:
        found = Store(store, verify=False)
        for index in range(min(len(found), 10)):
            found[index]

    files = [*[store / "meta.json"] * 3, *store.glob("*.npy"), *store.glob("*.npz")]
    meta = json_bytes(store_format._digest)
    return Target(
        files, read, lambda content, draw: meta(content, draw) if content[:1] == b"{" else damage(content, draw)
    )


def run_target(root: Path) -> Target:
    train(tiny_settings(noise_store(root / "data"), steps=2), root / "run")
    run = RunFolder(root / "run")

    def read() -> None:
        run.read_settings()
        list(journal.read(run.metrics))
        read_checkpoint(run.last)
        open_model(run.path, checkpoint="best")

    settings = json_bytes(None)

    def rewrite(content: bytes, generator: np.random.Generator) -> bytes:
        if content[:1] == b"{":
            return settings(content, generator) if b"\n{" not in content else damage(content, generator)
        return weights_bytes(content, generator)

    return Target([run.settings_file, run.settings_file, run.metrics, run.last, run.best], read, rewrite)


def label_target(root: Path) -> Target:
    maps = np.random.default_rng(0).integers(0, 4, (9, 12))
    document = editing.merge(editing.begin("a.png", "weights", maps, level=2), [1, 2])
    path = root / "a.png.json"
    labels.write_document(path, document)

    def read() -> None:
        found = labels.read_document(path)
        assert found is None or found.labels().shape == found.size

    return Target([path], read, json_bytes(labels._digest))


def error_of(read: Callable[[], Any]) -> ValueError | None:
    try:
        read()
    except ValueError as error:
        return error
    return None


TARGETS = (weights_target, onnx_target, store_target, run_target, label_target)


@pytest.mark.slow
@pytest.mark.parametrize("build_target", TARGETS)
def test_malformed_files(tmp_path, capfd, build_target):
    target = build_target(tmp_path)
    target.read()
    capfd.readouterr()
    generator = np.random.default_rng(int(os.environ.get("COCANET_FUZZ_SEED", "0")))
    refused = 0
    for case in range(CASES):
        file = target.files[int(generator.integers(len(target.files)))]
        content = file.read_bytes()
        file.write_bytes((target.rewrite if case % 2 else damage)(content, generator))
        started = time.monotonic()
        error = error_of(target.read)
        if error is not None:
            refused += 1
            line = f"case {case}: {error}"
            assert str(tmp_path) in line
            assert "\n" not in line
            assert not isinstance(error.__cause__, NameError | AttributeError | AssertionError), line
        assert time.monotonic() - started < SECONDS, f"case {case} of {file.name} took too long"
        file.write_bytes(content)
    assert refused > CASES / 3
    assert capfd.readouterr() == ("", "")
    target.read()
