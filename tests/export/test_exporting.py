"""Exported files give what the model gives, whatever it is made of."""

import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from cocanet.config import DataConfig, Preset
from cocanet.export.exporting import export_model
from cocanet.export.graph import check_exportable
from cocanet.export.parity import pictures
from cocanet.export.settings import ExportSettings
from cocanet.models.build import build
from cocanet.segment.exported import Head
from cocanet.segment.levels import level_masks
from cocanet.segment.loading import load
from cocanet.weights import open_model, write_weights
from tests.export.models import MODELS, WITH_DECODER
from tests.models.rivals.rivals import bo_qsa, inv_sa, slot_attention, tiny_config
from tests.tiny import small

ROOT = Path(__file__).parents[2]


def export(folder: Path, format: str, *names: str) -> str:
    """Run `tests.export.models`; what it printed."""
    pytest.importorskip("onnxscript", reason="exporting needs the extra cocanet[onnx]")
    done = subprocess.run(
        [sys.executable, "-m", "tests.export.models", str(folder), format, *names],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    said = export(folder, "onnx", "dynamic", "feedback", "tokens")
    assert said.count("every pixel has the same slot") == 3
    return folder


def outputs(name: str, folder: Path, images: np.ndarray) -> dict[str, np.ndarray]:
    """All that an export may have, from the model."""
    model = open_model(folder / f"{name}.safetensors").model
    with torch.inference_mode():
        out = model(torch.from_numpy(images))
        found = model.encode(torch.from_numpy(images))
        parts = [level_masks(found, level, model.config.image_size) for level in range(1, len(found.levels))]
    wanted = {"masks": out.encoder_masks, "slots": out.slots, "in_use": out.in_use}
    for level, part in enumerate(parts, 1):
        wanted |= {f"level_{level}_masks": part.masks, f"level_{level}_features": part.vectors}
    if name in WITH_DECODER:
        wanted |= {"decoder_masks": out.decoder_masks, "reconstruction": out.reconstruction}
    return {name: value.numpy() for name, value in wanted.items()}


def agreeing(found: dict[str, np.ndarray], expected: dict[str, np.ndarray], tolerance: float) -> np.ndarray:
    """Whether each image's every output is the same."""
    assert list(found) == list(expected)
    for name, value in expected.items():
        assert found[name].shape == value.shape, name
        assert found[name].dtype == value.dtype, name
    near = [
        np.abs(found[name].astype(np.float32) - value.astype(np.float32)).reshape(len(value), -1).max(1) < tolerance
        for name, value in expected.items()
    ]
    return np.all(near, 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dynamic", "feedback", "tokens"])
def test_every_output_is_the_models(name, exported):
    """Of 40 pictures, in batches of several sizes; untrained weights leave a few of them to rounding."""
    segmenter = load(exported / f"{name}.onnx")
    images = pictures(MODELS[name].image_size, 40, seed=5)
    same = []
    for batch in np.split(images, [1, 4, 21]):
        same.append(agreeing(segmenter.run(batch), outputs(name, exported, batch), 1e-3))
    assert np.concatenate(same).mean() > 0.85


@pytest.mark.slow
def test_dynamic_slots_differ_from_image_to_image(exported):
    in_use = load(exported / "dynamic.onnx").run(pictures(MODELS["dynamic"].image_size, 20))["in_use"]
    assert in_use.shape == (20, 6)
    assert len(np.unique(in_use.sum(1))) > 1


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"masks": "decoder"}, {"level": 1}])
def test_segmentations_are_the_same(exported, options):
    ours, theirs = load(exported / "feedback.onnx"), load(exported / "feedback.safetensors")
    images = list((255 * pictures((24, 30), 12, seed=2)).round().astype(np.uint8).transpose(0, 2, 3, 1))
    pairs = list(zip(ours.segment(images, **options), theirs.segment(images, **options), strict=True))
    same = [np.array_equal(one.labels, other.labels) for one, other in pairs]
    assert np.mean(same) > 0.8
    one, other = pairs[same.index(True)]
    np.testing.assert_allclose(one.slots, other.slots, atol=1e-3)
    assert (one.reconstruction is None) == (other.reconstruction is None)


@pytest.mark.slow
def test_a_program_of_torch(tmp_path):
    """It is loaded without cocanet's own code, says what it is, and holds no path of whoever made it."""
    assert "every pixel has the same slot" in export(tmp_path, "torch", "feedback")
    extra = {"cocanet.json": ""}
    program = torch.export.load(tmp_path / "feedback.pt2", extra_files=extra)
    head = Head.from_json(extra["cocanet.json"], "feedback.pt2")
    assert head.preset.name == "feedback"
    images = pictures(MODELS["feedback"].image_size, 6, seed=5)
    found = dict(zip(head.outputs, (x.numpy() for x in program.module()(torch.from_numpy(images))), strict=True))
    assert agreeing(found, outputs("feedback", tmp_path, images), 1e-3).mean() > 0.8
    with zipfile.ZipFile(tmp_path / "feedback.pt2") as archive:
        assert not any(str(ROOT).encode() in archive.read(name) for name in archive.namelist())


@pytest.mark.slow
def test_metadata(exported):
    onnx = pytest.importorskip("onnx")
    file = onnx.load(exported / "feedback.onnx")
    onnx.checker.check_model(file, full_check=True)
    assert file.producer_name == "cocanet"
    assert file.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    (entry,) = (entry for entry in file.metadata_props if entry.key == "cocanet")
    head = Head.from_json(entry.value, "feedback.onnx")
    assert head.preset == open_model(exported / "feedback.safetensors").preset
    assert head.notes == {"step": 7, "commit": "abc"}
    assert head.weights == "feedback.safetensors"
    assert list(head.outputs) == [output.name for output in file.graph.output]
    assert str(ROOT).encode() not in (exported / "feedback.onnx").read_bytes()


def test_what_no_graph_can_carry_is_refused(tmp_path):
    random = Preset("random", small(anchors="random"), DataConfig("tetrominoes"))
    with pytest.raises(ValueError, match=r"random \(RAS\); export weights of a preset without -ras"):
        check_exportable(random, "mine")
    for rival in (slot_attention(), inv_sa(), bo_qsa(), tiny_config()):
        with pytest.raises(ValueError, match=f"mine is a {rival.kind}"):
            check_exportable(Preset("rival", rival, DataConfig("tetrominoes")), "mine")
    path = tmp_path / "a.safetensors"
    write_weights(path, random, build(random, seed=0).state_dict(), {})
    with pytest.raises(ValueError, match="at random"):
        export_model(path, ExportSettings(out=tmp_path / "a.onnx"))
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_finds_something_else_is_not_left_behind(tmp_path, monkeypatch):
    made = Preset("small", small(), DataConfig("tetrominoes"))
    path = tmp_path / "a.safetensors"
    write_weights(path, made, build(made, seed=0).state_dict(), {})
    monkeypatch.setattr("cocanet.export.exporting.trace", lambda *_: None)
    monkeypatch.setattr("cocanet.export.exporting.write_onnx", lambda path, *_: path.write_bytes(b"graph"))

    def wrong(path, head):
        assert path.read_bytes() == b"graph"
        return lambda images: {"masks": np.zeros((len(images), 4, 8, 12)), "slots": np.zeros((len(images), 4, 16))}

    monkeypatch.setattr("cocanet.export.exporting._runner", wrong)
    with pytest.raises(ValueError, match=r"a\.onnx is not written: on 5 images masks differ by at most"):
        export_model(path, ExportSettings(out=tmp_path / "a.onnx", images=5))
    assert list(tmp_path.iterdir()) == [path]


def test_what_torch_cannot_translate_is_said_in_a_line(tmp_path, monkeypatch):
    made = Preset("small", small(), DataConfig("tetrominoes"))
    path = tmp_path / "a.safetensors"
    write_weights(path, made, build(made, seed=0).state_dict(), {})

    def trace(*_):
        raise RuntimeError("no word for it\nand much more")

    monkeypatch.setattr("cocanet.export.exporting.trace", trace)
    with pytest.raises(ValueError, match=r"^torch \S+ could not carry this model: no word for it$"):
        export_model(path, ExportSettings(out=tmp_path / "a.onnx"))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"format": "onnx", "out": Path("a.pt2")}, r"a file for onnx ends in \.onnx; got a\.pt2"),
        ({"format": "torch", "out": Path("a.onnx")}, r"ends in \.pt2"),
        ({"slots": 0}, "slots must be at least 1"),
        ({"feedback": -1}, "0 or more rounds"),
        ({"images": 0}, "at least one picture"),
    ],
)
def test_settings(wrong, said):
    with pytest.raises(ValueError, match=said):
        ExportSettings(**wrong)


def test_names_of_files():
    assert ExportSettings().path("tetrominoes") == Path("tetrominoes.onnx")
    assert replace(ExportSettings(), format="torch").path("runs/best.safetensors") == Path("best.pt2")
