"""`coca demo`: scores and pictures of new scenes."""

from __future__ import annotations

import re

import pytest
from PIL import Image

from cocanet.cli import demo
from cocanet.cli.demo import run_demo
from cocanet.data import generators
from cocanet.data.generators.gl import RendererUnavailableError
from cocanet.explain.figures import KINDS
from cocanet.metrics.table import SCORES
from cocanet.paper_scores import PAPER
from tests.data.generators.rendering import needs_renderer

DRAWN = ("tetrominoes", "multi-dsprites")


def test_new_scenes_are_scored_beside_the_paper_and_drawn(tmp_path, capsys):
    scores = run_demo(tmp_path, ["tetrominoes"], scenes=6)["tetrominoes"]
    assert tuple(scores) == SCORES
    for kind in KINDS:
        if not KINDS[kind].token_decoder:
            with Image.open(tmp_path / "tetrominoes" / f"{kind}.png") as picture:
                assert min(picture.size) > 300
    printed = capsys.readouterr().out
    assert "coca segment tetrominoes" in printed
    paper = PAPER["coca-net", "tetrominoes"].scores
    assert re.search(rf"MSE +│ +{scores['mse']:.3f} │ +{paper['mse'].mean:.3f}", printed)


@needs_renderer
def test_rendered_scenes_have_one_picture(tmp_path):
    assert tuple(run_demo(tmp_path, ["objects-room"], scenes=1)["objects-room"]) == SCORES
    assert [path.name for path in (tmp_path / "objects-room").glob("*.png")] == ["grid.png"]


def test_by_default_all_shipped_weights_are_shown_each_time_on_new_scenes(tmp_path, monkeypatch):
    seeds = []

    def record(name, trained, out, seed, *others):
        seeds.append((name, seed))
        return {}

    monkeypatch.setattr(demo, "_show", record)
    monkeypatch.setattr(demo, "_scenes_of", lambda *_: [])
    monkeypatch.setattr(demo, "_save_postcard", lambda rows, path: path)
    for _ in range(2):
        run_demo(tmp_path)
    assert [name for name, _ in seeds] == 2 * demo.with_scenes()
    assert len({seed for _, seed in seeds}) == 2


def test_without_a_renderer_the_other_weights_are_shown(tmp_path, capsys, monkeypatch):
    generate = generators.make_scenes

    def without_renderer(name, **options):
        if name not in DRAWN:
            raise RendererUnavailableError("rendered scenes need MuJoCo")
        return generate(name, **options)

    monkeypatch.setattr(generators, "make_scenes", without_renderer)
    assert set(run_demo(tmp_path, scenes=5)) == set(DRAWN)
    assert "left out: rendered scenes need MuJoCo" in capsys.readouterr().out
    assert Image.open(tmp_path / "objects.png").width > 1000, "five scenes beside each other"
    with pytest.raises(RendererUnavailableError):
        run_demo(tmp_path, [name for name in demo.with_scenes() if name not in DRAWN][:1], scenes=2)


def test_photographs_cannot_be_generated(tmp_path):
    with pytest.raises(ValueError, match="birds are photographs and cannot be generated: `coca segment birds PATH"):
        run_demo(tmp_path, ["tetrominoes", "birds"])
