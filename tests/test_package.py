"""The names of `import cocanet`, and the start of the command."""

import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import cocanet
from cocanet.__main__ import main


def test_dir_shows_the_public_names():
    assert dir(cocanet) == sorted(cocanet.__all__)
    assert {"Segmentation", "Segmenter", "build", "load", "presets", "__version__"} <= set(dir(cocanet))
    assert all(getattr(cocanet, name) is not None for name in dir(cocanet))


def test_version():
    assert cocanet.__version__ == version("cocanet")


def test_a_missing_package_is_named_in_one_line():
    code = "import sys; sys.modules['tyro'] = None; from cocanet.__main__ import main; main(['demo'])"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("coca: cannot start: ")
    assert "tyro" in line


def test_ctrl_c_while_it_loads_is_one_line(monkeypatch, capsys):
    def interrupted(arguments: list[str]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("cocanet.cli.commands.parse", interrupted)
    with pytest.raises(SystemExit) as end:
        main(["demo"])
    assert end.value.code == 130
    assert capsys.readouterr().err == "coca: interrupted\n"


def test_imports_of_the_manual_work_at_the_prompt():
    """The prompt keeps its last value in `_`, which a package that looks it up may not be able to hash."""
    page = (Path(__file__).parents[1] / "docs" / "python.md").read_text()
    imports = re.findall(r"^(?:>>> )?((?:from|import) cocanet.*)$", page, re.MULTILINE)
    assert len(imports) > 5
    script = "import builtins\nbuiltins._ = (1, [2])\n" + "\n".join(dict.fromkeys(imports))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
