"""What the README shows works as it stands there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import tyro
from PIL import Image

from cocanet.cli import Command, main
from cocanet.cli.auto import take
from cocanet.cli.train import parse
from cocanet.data.scenes.tetrominoes import Tetrominoes

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
    assert 1 <= len(names["found"].objects) <= 3


@pytest.mark.parametrize("line", [line for line in commands("coca") if line.split()[1] == "train"])
def test_training_commands_are_understood(line):
    words = shlex.split(line)[2:]
    if "auto" in words:  # its data decides the rest; docs/own-images.md is tested with pictures
        assert take(words)[0].slots == 6
    else:
        assert parse(words).preset in words


@pytest.mark.parametrize("line", [line for line in commands("coca") if line.split()[1] != "train"])
def test_all_other_commands_are_understood(line):
    assert tyro.cli(Command, args=shlex.split(line)[1:]) is not None


def test_every_command_is_there(capsys):
    """What the program offers is what the README shows; `make demo` shows one."""
    with pytest.raises(SystemExit):
        main(["--help"])
    offered = re.search(r"\{([\w,]+)\}", capsys.readouterr().out)
    assert offered is not None
    shown = {line.split()[1] for line in commands("coca")} | set(re.findall(r"/coca (\w+)", MAKEFILE))
    assert shown == set(offered[1].split(","))


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
