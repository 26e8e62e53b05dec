from __future__ import annotations

import subprocess
import sys

import pytest

from cocanet.data.generators import SCENE_NAMES, make_scenes


def test_names_and_options_reach_the_generator() -> None:
    assert len(SCENE_NAMES) == 6
    source = make_scenes("multi-dsprites", count=7, seed=3, max_objects=4)
    assert len(source) == 7
    assert source.recipe["max_objects"] == 4
    assert make_scenes("tetrominoes", count=1, seed=3, size=35)[0].image.shape == (35, 35, 3)


def test_an_unknown_name_suggests_the_nearest() -> None:
    for name, meant in (("tetris", "tetrominoes"), ("Multi_dSprites", "multi-dsprites"), ("clever", "clevr")):
        with pytest.raises(ValueError, match=f"unknown scenes '{name}': did you mean {meant}?"):
            make_scenes(name, count=1, seed=0)
    with pytest.raises(ValueError, match=r"unknown scenes 'xyz': there are tetrominoes, .*clevrtex"):
        make_scenes("xyz", count=1, seed=0)


def test_options_that_do_not_apply_are_refused() -> None:
    with pytest.raises(ValueError, match="max_objects=4 does not apply"):
        make_scenes("tetrominoes", count=1, seed=0, max_objects=4)
    with pytest.raises(ValueError, match="at least 1, not 0"):
        make_scenes("tetrominoes", count=0, seed=0)


def test_no_generator_loads_the_renderer_before_it_renders() -> None:
    script = (
        "import sys; from cocanet.data.generators import clevr, clevrtex, make_scenes, objects_room, shapestacks;"
        "make_scenes('tetrominoes', count=1, seed=0)[0];"
        "assert 'mujoco' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
