"""docs/explore.md agrees with the page and the command."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from cocanet.cli.commands import parse

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "explore.md").read_text()
KEYS = (ROOT / "src" / "cocanet" / "explore" / "page" / "keys.js").read_text()


def test_docs_and_page_list_the_same_keys():
    documented = [
        ([key.strip("`") for key in keys.split()], words)
        for keys, words in re.findall(r"^\| (`.*`) \| (.*) \|$", TEXT.split("## Keys")[1], flags=re.MULTILINE)
    ]
    shown = [
        (re.findall(r'"([^"]+)"', keys), words)
        for keys, words in re.findall(r'^  \[\[(".*?")\], "(.*)"\],$', KEYS, flags=re.MULTILINE)
    ]
    assert documented == shown
    assert len(shown) >= 18


def test_commands_parse():
    commands = re.findall(r"^coca (explore.*)$", TEXT, flags=re.MULTILINE)
    assert len(commands) >= 3
    for line in commands:
        assert parse(shlex.split(line)) is not None


def test_links_have_targets():
    for file, heading in re.findall(r"\]\(([^)#]+\.md)(?:#([^)]+))?\)", TEXT):
        titles = re.findall(r"^#+ (.+)$", (ROOT / "docs" / file).read_text(), flags=re.MULTILINE)
        known = [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]
        assert not heading or heading in known, heading
