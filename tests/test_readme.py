"""What the README shows works as it stands there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cocanet.cli import main

README = (Path(__file__).parents[1] / "README.md").read_text()
MAKEFILE = (Path(__file__).parents[1] / "Makefile").read_text()


def commands(program: str) -> list[str]:
    """Lines of the fenced blocks that start with a program, without their comments."""
    blocks = README.split("```")[1::2]
    lines = [line.split("  #")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.split(" ")[0] == program]


def test_python_example():
    block = re.search(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert block is not None
    names: dict[str, object] = {}
    exec(block.group(1), names)
    assert names["out"].reconstruction.shape == (2, 3, 32, 32)


def test_data_commands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_photos").mkdir()
    for index in range(3):
        noise = np.random.default_rng(index).integers(0, 256, (40, 60, 3), dtype=np.uint8)
        Image.fromarray(noise).save(tmp_path / "my_photos" / f"{index}.png")
    shown = [line for line in commands("coca") if line.split()[1] in ("scenes", "import", "data")]
    assert len(shown) >= 3
    for line in shown:
        main(shlex.split(line)[1:])
    assert (tmp_path / "sheet.png").stat().st_size > 1000


@pytest.mark.parametrize("line", commands("make"))
def test_make_targets_exist(line):
    assert re.search(rf"^{line.split()[1]}:", MAKEFILE, flags=re.MULTILINE)
