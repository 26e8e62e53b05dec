"""Hooks of the manual's build (`make docs`): every command's help, the changelog, notes for contributors.

MkDocs calls the functions named `on_…`. `{{ commands }}` in a page is replaced by the help texts, which come from the
commands themselves and are therefore up to date.
"""

from __future__ import annotations

import contextlib
import io
import os
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from cocanet.cli import main

ROOT = Path(__file__).resolve().parents[1]
BORROWED = {"changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md", "security.md": "SECURITY.md"}
"""Pages whose text is a file beside the README."""
PLACE = "{{ commands }}"
REFERENCE = "api/"
COLUMNS = 84
UNLISTED = {"coca train": ("auto",)}
"""Subcommands that the help of a command does not list."""


class Help(NamedTuple):
    """The help text of a command."""

    command: str
    text: str


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.nav = unfolded(config.nav, Path(config.docs_dir))
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for page, source in BORROWED.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=as_page(text)))
    return files


def on_page_markdown(markdown: str, page: Page, files: Files, **_: Any) -> str:
    if PLACE in markdown:
        markdown = markdown.replace(PLACE, "\n".join(section(help) for help in all_help()))
    # Search results show pages that explain a word before pages of the reference.
    if page.file.src_uri.startswith(REFERENCE):
        page.meta.setdefault("search", {"boost": 0.1})
    return _with_titles(markdown, page.file, files)


def unfolded(menu: Any, docs: Path) -> Any:
    """The menu, with each entry `NAME/` replaced by the pages of that folder."""
    match menu:
        case str() if menu.endswith("/"):
            return [{page.stem: page.relative_to(docs).as_posix()} for page in sorted((docs / menu).glob("*.md"))]
        case dict():
            return {title: unfolded(below, docs) for title, below in menu.items()}
        case list():
            return [unfolded(entry, docs) for entry in menu]
    return menu


def as_page(text: str) -> str:
    """A file beside the README as a page of the manual: its links lead to other pages."""
    for page, source in BORROWED.items():
        text = text.replace(f"]({source})", f"]({page})")
    return re.sub(r"\]\(docs/", "](", text)


def _with_titles(markdown: str, source: File, files: Files) -> str:
    """Links that show a file's name show the title of its page instead."""

    def titled(link: re.Match[str]) -> str:
        place = posixpath.normpath(posixpath.join(posixpath.dirname(source.src_uri), link[1]))
        target = files.get_file_from_path(place)
        return f"[{title_of(target.content_string)}]({link[1]}{link[2] or ''})" if target else link[0]

    return re.sub(r"\[[\w/-]+\.md\]\(([\w./-]+\.md)(#[\w-]+)?\)", titled, markdown)


def title_of(text: str) -> str:
    """The first heading of a page."""
    heading = re.search(r"^# (.+)$", text, flags=re.MULTILINE)
    if heading is None:
        raise PluginError(f"a page that others link to has no title; it begins {text[:60]!r}")
    return heading[1]


def section(help: Help) -> str:
    """A heading, the command's description as prose, and its flags in their boxes."""
    usage, said = help.text.split("\n\n", 1)
    prose, drawn, boxes = said.partition("╭")
    level = "##" if len(help.command.split()) <= 2 else "###"
    fence = f"```text\n{usage.strip()}\n\n{drawn}{boxes.rstrip()}\n```"
    return f'{level} {help.command}\n\n{prose.strip()}\n\n<div class="help" markdown="1">\n\n{fence}\n\n</div>\n'


def all_help(command: str = "coca") -> Iterator[Help]:
    """The help of a command and of all its subcommands."""
    own = Help(command, _help(command))
    yield own
    for name in (*offered(own.text), *UNLISTED.get(command, ())):
        yield from all_help(f"{command} {name}")


def offered(text: str) -> list[str]:
    """The commands that a help text's first line offers: `usage: coca [-h] {demo,train}`."""
    usage = text.split("\n\n")[0]
    choice = re.fullmatch(r"usage: [a-z ]+ \[-h\]\s+\{([\w,-]+)\}\s*", usage)
    return choice[1].split(",") if choice else []


def _help(command: str) -> str:
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")  # boxes need an encoding that has them
    settings = {"COLUMNS": str(COLUMNS), "NO_COLOR": "1"}
    try:
        with mock.patch.dict(os.environ, settings), contextlib.redirect_stdout(printed):
            main([*command.split()[1:], "--help"])
    except SystemExit as end:
        if end.code:
            raise PluginError(f"`{command} --help` ended with {end.code}") from None
    printed.seek(0)
    return printed.read()
