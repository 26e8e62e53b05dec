import re

import pytest
from PIL import Image

from cocanet.cli import demonstration
from cocanet.cli.demonstration import run_demo, with_scenes
from cocanet.data.scenes.gl import RendererUnavailableError
from cocanet.figures import KINDS
from cocanet.metrics.table import SCORES
from cocanet.paper_scores import PAPER
from cocanet.weights import open_model, shipped_names
from tests.data.scenes.rendering import needs_renderer

DRAWN = ("tetrominoes", "multi-dsprites")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in DRAWN else needs_renderer) for name in with_scenes()]
)
def test_demo_scores_fresh_scenes_and_draws_them(tmp_path, capsys, name):
    small = open_model(name).preset.model.image_size[0] <= 64
    scores = run_demo(tmp_path, [name], scenes=40 if small else 8)[name]
    assert tuple(scores) == SCORES
    every = [kind for kind, about in KINDS.items() if not about.by_tokens]
    for kind in every if name in DRAWN else ["grid"]:
        with Image.open(tmp_path / name / f"{kind}.png") as picture:
            assert min(picture.size) > 300
    said = capsys.readouterr().out
    assert "coca segment" in said
    # What the weights are shipped for: fresh scenes are divided as well as those of the test split.
    of_test_split = open_model(name).notes["scores"]
    for score in ("encoder_ari", "encoder_msc_fg"):
        assert scores[score] == pytest.approx(of_test_split[score], abs=0.1 if small else 0.2), score
    paper = PAPER["coca-net", name].scores
    assert re.search(rf"MSE +│ +{scores['mse']:.3f} │ +{paper['mse'].mean:.3f}", said)


@needs_renderer
def test_demo_shows_all_weights_that_are_shipped_for_scenes(tmp_path):
    assert set(shipped_names()) - set(with_scenes()) == {"birds", "flowers"}
    assert tuple(run_demo(tmp_path, scenes=2)) == tuple(with_scenes())


def test_photographs_cannot_be_made(tmp_path):
    with pytest.raises(ValueError, match="birds are photographs, which cannot be made: `coca segment birds PATH"):
        run_demo(tmp_path, ["tetrominoes", "birds"], scenes=2)


def test_demo_without_a_renderer_shows_what_it_can(tmp_path, capsys, monkeypatch):
    def fail(*arguments, **options):
        raise RendererUnavailableError("rendered scenes need MuJoCo")

    plain = demonstration.make_scenes
    monkeypatch.setattr(
        demonstration, "make_scenes", lambda name, **options: (plain if name in DRAWN else fail)(name, **options)
    )
    assert set(run_demo(tmp_path, scenes=2)) == set(DRAWN)
    if set(shipped_names()) > set(DRAWN):
        assert "left out: rendered scenes need MuJoCo" in capsys.readouterr().out
        with pytest.raises(RendererUnavailableError):
            run_demo(tmp_path, [next(name for name in with_scenes() if name not in DRAWN)], scenes=2)


def test_no_two_demos_are_alike(tmp_path):
    for name in ("one", "two"):
        run_demo(tmp_path / name, ["tetrominoes"], scenes=6)
    seeds = [folder.name for run in ("one", "two") for folder in (tmp_path / run).glob("tetrominoes/scenes-*")]
    assert len(set(seeds)) == 2
