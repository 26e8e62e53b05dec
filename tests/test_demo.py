from PIL import Image

from cocanet.demo import run_demo
from cocanet.evaluation.protocol import SCORES


def test_demo_learns_something_and_draws_it(tmp_path, capsys):
    scores = run_demo(tmp_path, minutes=0.01)
    assert tuple(scores) == SCORES
    with Image.open(tmp_path / "tetrominoes.png") as picture:
        assert picture.width > picture.height * 0.7
    printed = capsys.readouterr().out
    assert "encoder ari fg" in printed
    assert "tetrominoes.png" in printed
