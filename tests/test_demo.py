import re

import pytest
from PIL import Image

from cocanet.demo import PICTURES, run_demo
from cocanet.evaluation.protocol import SCORES
from cocanet.paper_scores import PAPER
from cocanet.pretrained import shipped_names


@pytest.mark.parametrize("name", shipped_names())
def test_demo_scores_fresh_scenes_and_draws_them(tmp_path, capsys, name):
    scores = run_demo(tmp_path, [name], scenes=40)[name]
    assert tuple(scores) == SCORES
    for kind in PICTURES:
        with Image.open(tmp_path / name / f"{kind}.png") as picture:
            assert min(picture.size) > 300
    said = capsys.readouterr().out
    assert "coca segment" in said
    paper = PAPER["coca-net", name].scores
    # What the weights are shipped for: objects found where the paper's encoder finds fewer.
    assert scores["encoder_ari"] > paper["encoder_ari"].mean
    assert re.search(rf"MSE +│ +{scores['mse']:.3f} │ +{paper['mse'].mean:.3f}", said)


def test_demo_shows_all_weights_that_are_shipped(tmp_path):
    assert tuple(run_demo(tmp_path, scenes=6)) == tuple(shipped_names())


def test_no_two_demos_are_alike(tmp_path):
    for name in ("one", "two"):
        run_demo(tmp_path / name, ["tetrominoes"], scenes=6)
    seeds = [folder.name for run in ("one", "two") for folder in (tmp_path / run).glob("tetrominoes/scenes-*")]
    assert len(set(seeds)) == 2
