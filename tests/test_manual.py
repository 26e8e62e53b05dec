"""The manual builds without warnings, its links resolve, and it documents every command and public name."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tools.links import Site

import cocanet
from cocanet.cli import main

pytest.importorskip("mkdocs", reason="the manual needs cocanet[docs]")
pytest.importorskip("mkdocstrings", reason="the manual needs cocanet[docs]")

from tools import manual

ROOT = Path(__file__).parents[1]
USAGE = """usage: coca [-h] {demo,train}

Discover objects.

╭─ options ─╮
│ -h        │
╰───────────╯
"""


def names_offered(capsys: pytest.CaptureFixture[str]) -> list[str]:
    with pytest.raises(SystemExit):
        main(["--help"])
    usage = re.search(r"\{([\w,-]+)\}", capsys.readouterr().out)
    assert usage is not None
    return usage[1].split(",")


def test_commands_are_read_from_the_first_line_alone():
    assert manual.offered(USAGE) == ["demo", "train"]
    assert manual.offered("usage: coca import [-h] [--size INT] FORMAT PATH\n\nTakes {a,b}.\n") == []
    assert manual.offered("usage: coca figure [-h] {grid,slots} WEIGHTS\n\nDraws.\n") == []


def test_help_becomes_prose_and_boxes():
    written = manual.section(manual.Help("coca data info", USAGE))
    assert written.startswith("### coca data info\n\nDiscover objects.\n")
    assert "```text\nusage: coca [-h] {demo,train}\n\n╭─ options ─╮\n" in written


def test_a_folder_in_the_menu_becomes_its_pages(tmp_path):
    (tmp_path / "cards").mkdir()
    for name in ("b.md", "a.md", "a.png"):
        (tmp_path / "cards" / name).touch()
    menu = [{"One": "one.md"}, {"More": ["two.md", {"Cards": "cards/"}]}]
    cards = [{"a": "cards/a.md"}, {"b": "cards/b.md"}]
    assert manual.unfolded(menu, tmp_path) == [{"One": "one.md"}, {"More": ["two.md", {"Cards": cards}]}]


def test_links_of_files_beside_the_readme_are_changed():
    assert manual.as_page("[a](docs/a.md#b), [c](https://x/docs/)") == "[a](a.md#b), [c](https://x/docs/)"


@pytest.mark.slow
def test_the_site(tmp_path, capsys):
    """One build for all checks; it is strict, so a page that is not in the menu fails it."""
    site = tmp_path / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(site)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr
    pages = Site(site)
    assert not list(pages.faults())

    commands = (site / "commands.html").read_text()
    offered = names_offered(capsys)
    assert {"segment", "train", "doctor"} <= set(offered)
    for name in offered:
        assert f'id="coca-{name}"' in commands, name
    assert "--min-area" in commands
    assert commands.count("╭─ options ─") == len(list(manual.all_help()))
    assert "{{" not in commands
    reference = "".join((site / "api" / name).read_text() for name in ("index.html", "models.html"))
    for name in set(cocanet.__all__) - {"__version__", "presets"}:
        assert f'id="cocanet.{name}"' in reference, name
    assert 'href="own-images.html">Your own images</a>' in (site / "python.html").read_text(), "a link shows a title"
