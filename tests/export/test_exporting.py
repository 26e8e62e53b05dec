"""Exported files predict what the model predicts, for every kind of model."""

import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from cocanet.config import DataConfig, Preset
from cocanet.export.export_settings import ExportSettings
from cocanet.export.exporting import export_model
from cocanet.export.graph import check_exportable
from cocanet.export.parity import synthetic_images
from cocanet.io.trained import open_model
from cocanet.io.weights import write_weights
from cocanet.models.build import build
from cocanet.predict import load
from cocanet.predict.onnx_segmenter import ExportMetadata
from cocanet.predict.segmenter import level_masks
from cocanet.refine import refine
from tests.export.models import MODELS, REFINE, REFINED, WITH_DECODER
from tests.models.baselines.baselines import bo_qsa, inv_sa, slot_attention, tiny_config
from tests.tiny import small

ROOT = Path(__file__).parents[2]


def export(folder: Path, format: str, *names: str) -> str:
    """Run `tests.export.models`; returns its output."""
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
    output = export(folder, "onnx", "dynamic", "tokens")
    assert output.count("every pixel has the same slot") == 2
    return folder


def outputs(name: str, folder: Path, images: np.ndarray) -> dict[str, np.ndarray]:
    """All outputs of an export, from the model itself."""
    model = open_model(folder / f"{name}.safetensors").model
    with torch.inference_mode():
        out = model(torch.from_numpy(images))
    if name in REFINED:
        encoder, decoder = (
            refine(masks, torch.from_numpy(images), out.in_use, REFINE)
            for masks in (out.encoder_masks, out.decoder_masks)
        )
        out = replace(out, encoder_masks=encoder, decoder_masks=decoder)
    wanted = {"masks": out.encoder_masks, "slots": out.slots, "in_use": out.in_use}
    for level in range(1, len(out.levels)):
        masks, features = level_masks(out.levels, level, model.config.image_size)
        wanted |= {f"level_{level}_masks": masks, f"level_{level}_features": features}
    if name in WITH_DECODER:
        wanted |= {"decoder_masks": out.decoder_masks, "reconstruction": out.reconstruction.clamp(0, 1)}
    return {name: value.numpy() for name, value in wanted.items()}


def agreeing(found: dict[str, np.ndarray], expected: dict[str, np.ndarray], tolerance: float) -> np.ndarray:
    """Whether all outputs of each image agree; lower levels need to agree in most values only."""
    assert list(found) == list(expected)
    same = np.ones(len(expected["masks"]), dtype=bool)
    for name, value in expected.items():
        assert found[name].shape == value.shape, name
        assert found[name].dtype == value.dtype, name
        near = np.abs(found[name].astype(np.float32) - value.astype(np.float32)) < tolerance
        if name.startswith("level"):
            assert near.mean() > 0.8, name
        else:
            same &= near.reshape(len(near), -1).all(1)
    return same


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dynamic", "tokens"])
def test_every_output_is_the_models(name, exported):
    """On 24 images in batches of several sizes; with untrained weights rounding decides a few of them."""
    segmenter = load(exported / f"{name}.onnx")
    images = synthetic_images(MODELS[name].image_size, 24, seed=5)
    same = []
    for batch in np.split(images, [1, 4]):
        same.append(agreeing(segmenter.run(batch), outputs(name, exported, batch), 1e-3))
    assert np.concatenate(same).mean() > 0.85


@pytest.mark.slow
def test_dynamic_slots_differ_from_image_to_image(exported):
    in_use = load(exported / "dynamic.onnx").run(synthetic_images(MODELS["dynamic"].image_size, 20))["in_use"]
    assert in_use.shape == (20, 4)
    assert len(np.unique(in_use.sum(1))) > 1


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"masks": "decoder"}, {"level": 1}])
def test_segmentations_are_the_same(exported, options):
    ours, theirs = load(exported / "tokens.onnx"), load(exported / "tokens.safetensors")
    images = list((255 * synthetic_images((24, 30), 8, seed=2)).round().astype(np.uint8).transpose(0, 2, 3, 1))
    pairs = list(zip(ours.segment(images, **options), theirs.segment(images, **options), strict=True))
    same = [np.array_equal(one.labels, other.labels) for one, other in pairs]
    assert np.mean(same) > 0.8
    one, other = pairs[same.index(True)]
    np.testing.assert_allclose(one.slots, other.slots, atol=1e-3)
    assert (one.reconstruction is None) == (other.reconstruction is None)


@pytest.mark.slow
def test_a_program_of_torch(tmp_path):
    """It loads without cocanet's own code, has its metadata, and holds no path of its author."""
    assert "every pixel has the same slot" in export(tmp_path, "torch", "frame")
    extra = {"cocanet.json": ""}
    program = torch.export.load(tmp_path / "frame.pt2", extra_files=extra)
    metadata = ExportMetadata.from_json(extra["cocanet.json"], "frame.pt2")
    assert metadata.preset.name == "frame"
    images = synthetic_images(MODELS["frame"].image_size, 6, seed=5)
    found = dict(zip(metadata.outputs, (x.numpy() for x in program.module()(torch.from_numpy(images))), strict=True))
    assert agreeing(found, outputs("frame", tmp_path, images), 1e-3).mean() > 0.8
    with zipfile.ZipFile(tmp_path / "frame.pt2") as archive:
        assert not any(str(ROOT).encode() in archive.read(name) for name in archive.namelist())


@pytest.mark.slow
def test_metadata(exported):
    onnx = pytest.importorskip("onnx")
    file = onnx.load(exported / "tokens.onnx")
    onnx.checker.check_model(file, full_check=True)
    assert file.producer_name == "cocanet"
    assert file.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    (entry,) = (entry for entry in file.metadata_props if entry.key == "cocanet")
    metadata = ExportMetadata.from_json(entry.value, "tokens.onnx")
    assert metadata.preset == open_model(exported / "tokens.safetensors").preset
    assert not metadata.refined
    assert metadata.notes == {"step": 7, "commit": "abc"}
    assert metadata.weights == "tokens.safetensors"
    assert list(metadata.outputs) == [output.name for output in file.graph.output]
    assert str(ROOT).encode() not in (exported / "tokens.onnx").read_bytes()


@pytest.mark.slow
def test_a_file_with_refinement_always_refines(exported):
    segmenter, image = load(exported / "dynamic.onnx"), np.zeros((20, 10, 3), np.uint8)
    assert segmenter.metadata.refined
    assert segmenter.segment(image).refined
    assert segmenter.segment(image, refine=True).refined
    assert not segmenter.segment(image, level=1).refined


def test_models_without_a_graph_are_refused(tmp_path):
    random = Preset("random", small(anchors="random"), DataConfig("tetrominoes"))
    with pytest.raises(ValueError, match=r"random \(RAS\); export weights of a preset without -ras"):
        check_exportable(random, "mine")
    for baseline in (slot_attention(), inv_sa(), bo_qsa(), tiny_config()):
        with pytest.raises(ValueError, match=f"mine is a {baseline.kind}"):
            check_exportable(Preset("baseline", baseline, DataConfig("tetrominoes")), "mine")
    path = tmp_path / "a.safetensors"
    write_weights(path, random, build(random, seed=0).state_dict(), {})
    with pytest.raises(ValueError, match="at random"):
        export_model(path, ExportSettings(out=tmp_path / "a.onnx"))
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_with_other_predictions_is_not_written(tmp_path, monkeypatch):
    made = Preset("small", small(), DataConfig("tetrominoes"))
    path = tmp_path / "a.safetensors"
    write_weights(path, made, build(made, seed=0).state_dict(), {})
    monkeypatch.setattr("cocanet.export.exporting.trace", lambda *_: None)
    monkeypatch.setattr("cocanet.export.exporting.write_onnx", lambda path, *_: path.write_bytes(b"graph"))

    def wrong(path, metadata):
        assert path.read_bytes() == b"graph"
        return lambda images: {"masks": np.zeros((len(images), 4, 8, 12)), "slots": np.zeros((len(images), 4, 16))}

    monkeypatch.setattr("cocanet.export.exporting._runner", wrong)
    with pytest.raises(ValueError, match=r"a\.onnx is not written: on 5 images masks differ by at most"):
        export_model(path, ExportSettings(out=tmp_path / "a.onnx", images=5))
    assert list(tmp_path.iterdir()) == [path]


def test_errors_of_the_translation_have_one_line(tmp_path, monkeypatch):
    made = Preset("small", small(), DataConfig("tetrominoes"))
    path = tmp_path / "a.safetensors"
    write_weights(path, made, build(made, seed=0).state_dict(), {})

    def trace(*_):
        raise RuntimeError("no word for it\nand much more")

    monkeypatch.setattr("cocanet.export.exporting.trace", trace)
    with pytest.raises(ValueError, match=r"^torch \S+ could not export this model: no word for it$"):
        export_model(path, ExportSettings(out=tmp_path / "a.onnx"))


def test_settings():
    for wrong, message in (
        ({"format": "onnx", "out": Path("a.pt2")}, r"a file for onnx ends in \.onnx; got a\.pt2"),
        ({"format": "torch", "out": Path("a.onnx")}, r"ends in \.pt2"),
        ({"slots": 0}, "slots must be at least 1"),
        ({"images": 0}, "at least one image"),
    ):
        with pytest.raises(ValueError, match=message):
            ExportSettings(**wrong)
    assert ExportSettings().path("tetrominoes") == Path("tetrominoes.onnx")
    assert replace(ExportSettings(), format="torch").path("runs/best.safetensors") == Path("best.pt2")
