"""The README's examples work as they stand."""

from __future__ import annotations

import re
from pathlib import Path

from PIL import Image

from cocanet.data.generators.tetrominoes import Tetrominoes

README = (Path(__file__).parents[1] / "README.md").read_text()
MAKEFILE = (Path(__file__).parents[1] / "Makefile").read_text()


def commands(program: str) -> list[str]:
    """Lines of the fenced blocks that start with a program, without their comments."""
    blocks = README.split("```")[1::2]
    lines = [line.split("  #")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.split(" ")[0] == program]


def test_python_example(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Image.fromarray(Tetrominoes(1, seed=5)[0].image).resize((96, 80)).save("scene.png")
    block = re.search(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert block is not None
    names: dict[str, object] = {}
    exec(block.group(1), names)
    assert names["found"].labels.shape == (80, 96)
    assert len(names["found"].objects) <= 3


def test_make_targets_exist():
    for line in commands("make"):
        assert re.search(rf"^{line.split()[1]}:", MAKEFILE, flags=re.MULTILINE), line
