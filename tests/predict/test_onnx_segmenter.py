"""An exported model segments as the model does, in a process without torch."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cocanet
from cocanet.export.parity import synthetic_images
from cocanet.predict.onnx_segmenter import ExportMetadata, describe_outputs
from cocanet.predict.prediction import Segmentation

pytest.importorskip("onnxruntime", reason="running an exported model needs the extra cocanet[onnx]")

FIXTURES = Path(__file__).parents[1] / "fixtures" / "exported"
"""Random weights and their export: `python -m tests.export.models FOLDER onnx three`."""
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def segmenter():
    return cocanet.load(FIXTURES / "three.onnx")


@pytest.fixture(scope="module")
def weights():
    return cocanet.load(FIXTURES / "three.safetensors")


def photos(count: int, size: tuple[int, int] = (30, 40)) -> list[np.ndarray]:
    return list((255 * synthetic_images(size, count, seed=4)).round().astype(np.uint8).transpose(0, 2, 3, 1))


@pytest.mark.parametrize("options", [{}, {"level": 1}, {"level": 2}, {"components": True, "fit": "pad"}])
def test_the_same_as_with_torch(segmenter, weights, options):
    """With untrained weights rounding decides some images, and on lower levels some windows."""
    theirs = weights.segment(photos(20), **options, soft=True)
    same, pixels = 0, []
    for one, other in zip(segmenter.segment(photos(20), **options, soft=True), theirs, strict=True):
        assert isinstance(one, Segmentation)
        pixels.append((one.numbers[one.labels] == other.numbers[other.labels]).mean())
        if np.array_equal(one.labels, other.labels) and np.abs(one.masks - other.masks).max() < 1e-3:
            same += 1
            np.testing.assert_allclose(one.slots, other.slots, atol=1e-2)
            np.testing.assert_array_equal(one.numbers, other.numbers)
            np.testing.assert_allclose(one.confidence, other.confidence, atol=1e-3)
    assert same >= (5 if options.get("level", 3) < 3 else 17)
    assert np.mean(pixels) > 0.95


def test_any_batch_size(segmenter):
    one_by_one = [segmenter.segment(photo) for photo in photos(5)]
    for batch_size in (2, 16):
        for one, other in zip(segmenter.segment(photos(5), batch_size=batch_size), one_by_one, strict=True):
            assert (one.labels == other.labels).mean() > 0.9


def test_metadata_of_the_file(segmenter):
    assert segmenter.preset.name == "three"
    assert segmenter.notes == {"step": 7, "commit": "abc"}
    assert segmenter.metadata.weights == "three.safetensors"
    assert segmenter.metadata.program.startswith("cocanet ")
    assert list(segmenter.metadata.outputs) == list(describe_outputs(segmenter.metadata.model, decoder=False))
    assert repr(segmenter).startswith("OnnxSegmenter(three: 8×12 pixels, 4 slots, trained on tetrominoes, on onnx")


def test_what_is_in_the_graph_cannot_be_changed(segmenter):
    for options, message in (
        ({"refine": True}, "has no refinement; export it again: coca export … --refine"),
        ({"slots": 3}, "number of slots is fixed in the graph.*--slots 3"),
        ({"dynamic": True}, "--dynamic"),
        ({"temperature": 2.0}, r"the temperature is fixed in the graph.*temperature=2\.0"),
        ({"masks": "decoder"}, "exported without its decoder.*--decoder"),
        ({"level": 4}, "level must lie in 1 … 3"),
    ):
        with pytest.raises(ValueError, match=message):
            segmenter.segment(photos(1)[0], **options)
    segmenter.segment(photos(1)[0], refine=False, slots=4, dynamic=False)


def test_bad_files(tmp_path):
    with pytest.raises(ValueError, match=r"none\.onnx is not there"):
        cocanet.load(tmp_path / "none.onnx")
    damaged = tmp_path / "damaged.onnx"
    damaged.write_bytes((FIXTURES / "three.onnx").read_bytes()[:5000])
    with pytest.raises(ValueError, match=r"damaged\.onnx is truncated, or not a file that onnxruntime reads") as error:
        cocanet.load(damaged)
    assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match=r"a program for torch\.export\.load"):
        cocanet.load("model.pt2")
    with pytest.raises(ValueError, match="device 'cuda' cannot be used here: this onnxruntime has no CUDA"):
        cocanet.load(FIXTURES / "three.onnx", "cuda")


def test_metadata_of_another_program(tmp_path):
    onnx = pytest.importorskip("onnx")
    file = onnx.load(FIXTURES / "three.onnx")
    entry = file.metadata_props[0]
    for value, message in (
        (None, "written by another program"),
        ("{", "is damaged: expected JSON"),
        (json.dumps({"version": 99}), "is an export of version 99"),
        (json.dumps({**json.loads(entry.value), "preset": {}}), "has a bad configuration"),
    ):
        del file.metadata_props[:]
        if value is not None:
            file.metadata_props.add(key="cocanet", value=value)
        onnx.save(file, tmp_path / "other.onnx")
        with pytest.raises(ValueError, match=message):
            cocanet.load(tmp_path / "other.onnx")


def test_without_onnxruntime(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ValueError, match=r"with onnxruntime, which is not installed: pip install 'cocanet\[onnx\]'$"):
        cocanet.load(FIXTURES / "three.onnx")


def test_metadata_round_trip(segmenter):
    assert ExportMetadata.from_json(segmenter.metadata.to_json(), "here") == segmenter.metadata


WITHOUT_TORCH = """
import sys

class Absent:
    def find_spec(self, name, *_):
        if name.split(".")[0] == "torch":
            raise ModuleNotFoundError(f"no {name} here")

sys.meta_path.insert(0, Absent())
file, folder = sys.argv[1:]
import numpy as np
from PIL import Image
import cocanet
photo = folder + "/photo.png"
Image.fromarray((np.indices((40, 50)).sum(0) % 17 * 15).astype(np.uint8)).convert("RGB").save(photo)
found = cocanet.load(file).segment(photo)
np.save(folder + "/labels.npy", found.labels)
found.overlay()
from cocanet.cli import main
try:
    main(["segment", file, photo, "--out", folder + "/found"])
except SystemExit as end:
    assert not end.code, end.code
assert not any(name.split(".")[0] == "torch" for name in sys.modules)
"""


def test_no_torch_in_the_process(tmp_path, weights):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, str(FIXTURES / "three.onnx"), str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "in 1 image," in done.stdout
    assert json.loads((tmp_path / "found" / "objects.json").read_text())["images"][0]["width"] == 50
    labels = np.load(tmp_path / "labels.npy")
    assert (labels == weights.segment(tmp_path / "photo.png").labels).mean() > 0.95
