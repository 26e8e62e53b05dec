"""`coca figure`: which images are drawn, and what is refused."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib import _pylab_helpers
from PIL import Image

import cocanet
from cocanet.cli.progress import ConsoleProgress
from cocanet.config import ConvConfig, DataConfig, DecoderConfig, LevelConfig, RunConfig
from cocanet.data.generators import make_scenes
from cocanet.data.splits import SEEDS, open_split
from cocanet.data.store import Store
from cocanet.data.store_writer import write_store
from cocanet.data.views import Part
from cocanet.explain.figures import KINDS, from_model
from cocanet.explain.figures.canvas import save
from cocanet.explain.figures.from_model import FigureImages, draw, pick, save_figure
from cocanet.io.run_folder import DataChoice, RunFolder, Settings
from cocanet.io.weights import write_weights
from tests.data.sources import NoiseSource, OwnImages
from tests.explain.panels import CONFIG, PRESET, panels, tiny_images, tiny_model


class Unlabelled(NoiseSource):
    has_labels = False


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    path = tmp_path_factory.mktemp("weights") / "tiny.safetensors"
    write_weights(path, PRESET, cocanet.build(PRESET, seed=0).state_dict(), {"step": 3})
    return path


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "store"
    write_store(NoiseSource(9, size=(8, 12)), folder)
    return folder


def test_every_kind_writes_a_picture(weights, store, tmp_path, capsys):
    write_store(Unlabelled(9, size=(8, 12)), tmp_path / "bare")
    for kind in (name for name, kind in KINDS.items() if not kind.token_decoder):
        for data in (store, tmp_path / "bare") if kind == "grid" else (store,):
            out = tmp_path / kind / data.name / f"{kind}.png"
            assert save_figure(kind, weights, data=data, out=out, progress=ConsoleProgress()) == out
            with Image.open(out) as picture:
                picture.load()
                assert picture.format == "PNG"
                assert len(picture.convert("RGB").getcolors(2**24)) > 10
            assert capsys.readouterr().out.startswith(f"{out}: {kind} of {KINDS[kind].count} image")
            assert [path.name for path in out.parent.iterdir()] == [out.name]


def test_the_ending_decides_the_format(weights, store, tmp_path):
    for ending, head in (("pdf", b"%PDF"), ("svg", b"<?xml"), ("PNG", b"\x89PNG")):
        out = save_figure("grid", weights, data=store, count=1, out=tmp_path / f"picture.{ending}")
        assert out.read_bytes().startswith(head)


def test_a_run_folder_will_do_and_the_name_is_the_kinds(weights, store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    shutil.copy(weights, tmp_path / "run" / "last.safetensors")
    assert str(save_figure("slots", "run", data=store)) == "slots.png"
    assert (tmp_path / "slots.png").exists()


def test_a_run_shows_validation_images_of_what_it_was_trained_on(weights, tmp_path, monkeypatch):
    store = write_store(OwnImages(40, size=(8, 12)), tmp_path / "mine")
    drawn = []
    monkeypatch.setattr(from_model, "save", lambda figure, out: drawn.append(panels(figure)[0]))
    run = RunFolder(tmp_path / "run")
    run.path.mkdir()
    run.write_settings(Settings(PRESET, RunConfig(), DataChoice(str(store.path))))
    shutil.copy(weights, run.last)
    save_figure("grid", run.path, count=1)
    expected = open_split(PRESET.data, "validation", store.path).gather(np.arange(1))[0][0]
    np.testing.assert_allclose(drawn[-1] * 255, expected, atol=1e-4)


def test_without_data_the_presets_validation_split_is_shown(tmp_path, monkeypatch):
    monkeypatch.setenv("COCANET_CACHE", str(tmp_path / "cache"))
    model = replace(
        CONFIG,
        image_size=(32, 32),
        levels=(LevelConfig((8, 8), 2, 1.0, 0), LevelConfig((4, 4), 4, 1.0, 0)),
        decoder=DecoderConfig((32, 32), (ConvConfig(4, 3),)),
    )
    preset = replace(PRESET, model=model, data=DataConfig("tetrominoes"))
    write_weights(tmp_path / "a.safetensors", preset, cocanet.build(preset, seed=0).state_dict(), {})
    drawn = []
    monkeypatch.setattr(from_model, "save", lambda figure, out: drawn.append(panels(figure)))
    save_figure("grid", tmp_path / "a.safetensors", count=2, first=5)
    scenes = make_scenes("tetrominoes", count=320, seed=SEEDS["validation"])
    for place in range(2):
        np.testing.assert_allclose(drawn[0][5 * place] * 255, scenes[5 + place].image, atol=1e-4)


def test_picks_the_images_asked_for(store):
    source = NoiseSource(9, size=(8, 12))
    chosen = pick(Part(Store(store), 0, 9), count=3, first=7)
    assert len(chosen.images) == 2, "no more than there are"
    assert chosen.background_labels == 2
    for place, index in enumerate((7, 8)):
        bytes_ = (chosen.images[place].permute(1, 2, 0) * 255).round().numpy()
        np.testing.assert_array_equal(bytes_, source[index].image)
        np.testing.assert_array_equal(chosen.truth[place].numpy(), source[index].labels)


def test_an_unlabelled_grid_has_four_columns(tmp_path):
    store = write_store(Unlabelled(4, size=(8, 12)), tmp_path / "data")
    figure = draw("grid", tiny_model(), pick(store, 4, 0))
    assert len(panels(figure)) == 4 * 4


def test_the_same_picture_twice_is_the_same_file(tmp_path):
    store = write_store(NoiseSource(4, size=(8, 12)), tmp_path / "data")
    for name in ("a.png", "b.png"):
        save(draw("hierarchy", tiny_model(), pick(store, 1, 0)), tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("grid", {"out": "picture.bmp"}, r"cannot write a figure to picture.bmp: expected .* \.png, \.pdf or \.svg"),
        ("grid", {"out": "picture"}, "cannot write a figure to picture"),
        ("grid", {"count": 0}, "a count of at least 1; got 0"),
        ("grid", {"first": 9}, "from 9 on: there are 9, counted from 0"),
        ("grid", {"first": -1}, "from -1 on"),
        ("hierarchy", {"count": 2}, "shows one image; got a count of 2: choose the image with --first"),
    ],
)
def test_a_mistake_is_one_line(kind, options, message, weights, store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if "out" in options:
        options = {"out": Path(options["out"])}
    with pytest.raises(ValueError, match=message) as error:
        save_figure(kind, weights, data=store, **options)
    assert "\n" not in str(error.value)
    assert not list(tmp_path.glob("*.png"))


@pytest.mark.parametrize(("out", "message"), [("file/a.png", "cannot write to"), ("folder.png", "it is a folder")])
def test_a_place_that_cannot_be_written_to_is_known_at_once(out, message, weights, store, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.png").mkdir()
    monkeypatch.setattr(from_model, "open_model", lambda *given: pytest.fail("opened first"))
    with pytest.raises(ValueError, match=message):
        save_figure("grid", weights, data=store, out=tmp_path / out)


def test_images_of_another_size_are_refused(weights, tmp_path):
    write_store(NoiseSource(3, size=(5, 7)), tmp_path / "small")
    with pytest.raises(ValueError, match="holds images of 5×7 pixels; this model takes 8×12"):
        save_figure("grid", weights, data=tmp_path / "small", out=tmp_path / "x.png")


def test_missing_weights_and_data_are_refused(weights, tmp_path):
    with pytest.raises(ValueError, match=r"no file or folder .*gone\.safetensors"):
        save_figure("grid", tmp_path / "gone.safetensors")
    with pytest.raises(ValueError, match=r"the data folder .* does not exist"):
        save_figure("grid", weights, data=tmp_path / "nowhere")


def test_a_figure_touches_no_global_state():
    draw("grid", tiny_model(), FigureImages(tiny_images(1)))
    assert not _pylab_helpers.Gcf.figs


def test_images_are_drawn_as_given():
    images = tiny_images(1)
    shown = panels(draw("hierarchy", tiny_model(), FigureImages(images)))
    np.testing.assert_array_equal(shown[0], images[0].permute(1, 2, 0).numpy())
