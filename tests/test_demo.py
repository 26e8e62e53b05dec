from PIL import Image

from cocanet.demo import PICTURES, run_demo
from cocanet.evaluation.protocol import SCORES
from cocanet.paper_scores import PAPER


def test_demo_scores_fresh_scenes_and_draws_them(tmp_path, capsys):
    found = run_demo(tmp_path, scenes={"tetrominoes": 40, "multi-dsprites": 4})
    assert {"tetrominoes", "multi-dsprites"} == set(found)
    for name, scores in found.items():
        assert tuple(scores) == SCORES
        for kind in PICTURES[name]:
            with Image.open(tmp_path / f"{name}-{kind}.png") as picture:
                assert min(picture.size) > 300
    # What the weights are shipped for: objects found where the paper's encoder finds fewer.
    assert found["tetrominoes"]["encoder_ari"] > PAPER["coca-net", "tetrominoes"].scores["encoder_ari"].mean
    assert "Pictures are in" in capsys.readouterr().out


def test_no_two_demos_are_alike(tmp_path):
    for name in ("one", "two"):
        run_demo(tmp_path / name, scenes={"tetrominoes": 6})
    seeds = [folder.name for run in ("one", "two") for folder in (tmp_path / run).glob("tetrominoes-scenes-*")]
    assert len(set(seeds)) == 2
