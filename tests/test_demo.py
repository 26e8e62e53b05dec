from PIL import Image

from cocanet.demo import PICTURES, run_demo
from cocanet.evaluation.protocol import SCORES
from cocanet.paper_scores import PAPER


def test_demo_scores_fresh_scenes_and_draws_them(tmp_path, capsys):
    scores = run_demo(tmp_path, scenes=40)
    assert tuple(scores) == SCORES
    for kind in PICTURES:
        with Image.open(tmp_path / f"{kind}.png") as picture:
            assert min(picture.size) > 300
    # What the weights are shipped for: objects found where the paper's encoder finds fewer.
    paper = PAPER["coca-net", "tetrominoes"].scores
    assert all(scores[name] > paper[name].mean for name in ("encoder_ari_fg", "encoder_msc_fg", "encoder_ari"))
    assert "coca segment" in capsys.readouterr().out


def test_no_two_demos_are_alike(tmp_path):
    for name in ("one", "two"):
        run_demo(tmp_path / name, scenes=6)
    seeds = [folder.name for run in ("one", "two") for folder in (tmp_path / run).glob("scenes-*")]
    assert len(set(seeds)) == 2
