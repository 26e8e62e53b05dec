"""`python -m tools.ship`: a run becomes shipped weights and a card."""

from __future__ import annotations

from dataclasses import replace

from tools.ship import Ship, ship

from cocanet.config import Stage, TrainConfig
from cocanet.data import splits
from cocanet.data.store_writer import write_store
from cocanet.io.run_folder import RunFolder
from cocanet.io.weights import read_weights, write_weights
from tests.small_runs import Squares, make_run, tiny_preset


def test_a_run_becomes_weights_and_a_card(tmp_path, monkeypatch):
    monkeypatch.setenv("COCANET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(splits, "TEST_IMAGES", 6)
    stages = (Stage(share=0.75), Stage(share=0.25, trains=("decoder",)))
    preset = replace(tiny_preset(), name="tetrominoes-fast", train=TrainConfig(stages=stages))
    validation = {"kind": "validation", "step": 5, "images": 40, "seconds": 3.0, "scores": {"mse": 0.1}}
    run = make_run(tmp_path / "run", preset=tiny_preset(), journal=(validation,))
    last = RunFolder(run).last
    notes = {"step": 5, "images": 40, "seconds": 120.0}
    write_weights(last, preset, read_weights(last).weights, notes)
    write_store(Squares(4), tmp_path / "published")
    page = ship(
        Ship(
            run=run,
            name="tetrominoes",
            commit="abc1234",
            command="coca train tetrominoes-fast --minutes 2",
            published=tmp_path / "published",
            remarks="Touching pieces of one colour share a slot.",
        ),
        tmp_path / "root",
    )
    shipped = read_weights(tmp_path / "root/src/cocanet/shipped/tetrominoes.safetensors")
    assert shipped.notes["commit"] == "abc1234"
    assert shipped.notes["scores"]["mse"] > 0
    text = page.read_text()
    for expected in (
        "| trained for | 5 steps, 40 images, 2 minutes on two CPU cores |",
        "| trained by | 2 stages: 75% reconstruction; 25% reconstruction, decoder only |",
        "as the network predicts them |",
        "| score | test split | published images | paper |",
        "untrained",
        "Touching pieces",
        f"| MSE | {shipped.notes['scores']['mse']:.4f} |",
    ):
        assert expected in text
    assert (page.parent / "tetrominoes.png").stat().st_size > 1000
    assert (page.parent / "tetrominoes-found.png").stat().st_size > 1000
