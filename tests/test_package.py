"""What `import cocanet` gives."""

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


def test_ctrl_c_while_it_loads_is_a_word(monkeypatch, capsys):
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("cocanet.cli.main", interrupted)
    with pytest.raises(SystemExit) as end:
        entry()
    assert end.value.code == 130
    assert capsys.readouterr().err == "coca: interrupted\n"
