"""What `import cocanet` gives."""

import os
import subprocess
import sys
from importlib.metadata import version

import pytest

import cocanet
from cocanet.__main__ import main as entry


def test_dir_shows_the_public_names():
    assert dir(cocanet) == sorted(cocanet.__all__)
    assert {"Segmentation", "Segmenter", "build", "load", "presets", "__version__"} <= set(dir(cocanet))
    assert all(getattr(cocanet, name) is not None for name in dir(cocanet))


def test_version():
    assert cocanet.__version__ == version("cocanet")


def test_a_package_that_is_not_there_is_a_line():
    code = "import sys; sys.modules['tyro'] = None; from cocanet.__main__ import main; main()"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("coca: cannot start: ")
    assert "tyro" in line


def test_ctrl_c_while_it_loads_is_a_word(monkeypatch, capsys):
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("cocanet.cli.main", interrupted)
    with pytest.raises(SystemExit) as end:
        entry()
    assert end.value.code == 130
    assert capsys.readouterr().err == "coca: interrupted\n"
