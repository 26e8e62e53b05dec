"""What docs/explore.md says of keys and commands is so."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import tyro

from cocanet.cli import Command

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "explore.md").read_text()
KEYS = ROOT / "src" / "cocanet" / "explore" / "page" / "keys.js"


def test_the_page_and_the_manual_name_the_same_keys():
    told = [
        ([key.strip("`") for key in keys.split()], words)
        for keys, words in re.findall(r"^\| (`.*`) \| (.*) \|$", TEXT.split("## Keys")[1], flags=re.MULTILINE)
    ]
    shown = [
        (re.findall(r'"([^"]+)"', keys), words)
        for keys, words in re.findall(r'^  \[\[(.*?)\], "(.*)"\],$', KEYS.read_text(), flags=re.MULTILINE)
        if keys
    ]
    levels = re.search(r'\[\["\[", "\]"\], "(.*)"\]', KEYS.read_text())
    assert levels is not None
    assert (["[", "]"], levels[1]) in told
    assert [row for row in told if "[" not in row[0]] == [row for row in shown if "[" not in row[0]]
    assert len(told) >= 18


def test_its_commands_are_understood():
    commands = re.findall(r"^coca (explore.*)$", TEXT, flags=re.MULTILINE)
    assert len(commands) >= 3
    for line in commands:
        assert tyro.cli(Command, args=shlex.split(line)) is not None


def test_its_links_lead_somewhere():
    for file, heading in re.findall(r"\]\(([^)#]+)(?:#([^)]+))?\)", TEXT):
        titles = re.findall(r"^#+ (.+)$", (ROOT / "docs" / file).read_text(), flags=re.MULTILINE)
        known = [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]
        assert not heading or heading in known, heading
