"""Parsing with tyro, whose boxes of errors become one line: what was given, what was expected, what may be meant."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stderr, redirect_stdout, suppress
from itertools import takewhile
from typing import Any, TypeVar

import tyro

from cocanet.cli.arguments import registry
from cocanet.words import unknown

T = TypeVar("T")

_EXPECTED = {
    "invalid literal for int() with base 10:": "a whole number",
    "could not convert string to float:": "a number",
}
"""Python's messages for a word that is no number, and what was expected."""


def parse(kind: type[T] | Any, arguments: list[str], *, prog: str, **options: Any) -> T:
    """What `tyro.cli` returns; a mistake raises ValueError of one line."""
    options.setdefault("config", (tyro.conf.FlagCreatePairsOff,))
    heard = io.StringIO()
    try:
        with registry, redirect_stderr(heard):
            found: T = tyro.cli(kind, prog=prog, args=arguments, **options)
            return found
    except SystemExit as end:
        if end.code != 2:
            raise
    raise ValueError(_in_one_line(heard.getvalue(), prog, lambda words: _help(kind, words, prog, options), arguments))


def _in_one_line(box: str, prog: str, help_of: Any, arguments: list[str]) -> str:
    # The box is drawn in ASCII where the terminal's encoding needs it.
    lines = [line.strip("│╭╮╰╯|+").rstrip() for line in box.splitlines()]
    rules = [number for number, line in enumerate(lines) if re.search(r"─{4}|-{4}", line)]
    first = lines[rules[0] + 1 : rules[1]] if len(rules) > 1 else lines
    text = " ".join(line.strip() for line in first)
    if "Missing from" in text:
        listed = [line for line in first if line.strip() and "Missing from" not in line]
        outermost = min((len(line) - len(line.lstrip()) for line in listed), default=0)
        needs = [line.strip() for line in listed if len(line) - len(line.lstrip()) == outermost]
        command = re.sub(r"Missing from (.*?):.*", r"\1", text)
        return f"{command} needs {', '.join(needs)}; `{command} --help` explains them"
    if found := re.match(r"Unrecognized options: (.*)", text):
        return _unrecognised(found[1].split(", "), prog, help_of, arguments)
    if found := re.match(r"invalid choice '(.*)' for argument '(.*)'. Expected one of \((.*)\)", text):
        return unknown(f"value of {found[2]}", found[1], re.findall(r"'([^']*)'", found[3]))
    if found := re.match(r"Error parsing (\S+): (.*)", text):
        return _bad_value(found[1], found[2])
    return text or "the command cannot be read; `coca --help` lists commands"


def _unrecognised(words: list[str], prog: str, help_of: Any, arguments: list[str]) -> str:
    """The nearest flag of the command whose word was not understood."""
    command = list(takewhile(lambda word: not word.startswith("-") and word != words[0], arguments))
    shown, commands = help_of(command[:2] if command[:1] == ["data"] else command[:1])
    name = " ".join((prog, *commands))
    flag = next((word for word in words if word.startswith("-")), None)
    if flag is None:
        return f"{name} takes no further word; got {words[0]!r}: `{name} --help` lists what it takes"
    known = list(dict.fromkeys(re.findall(r"(?<![\w-])--[a-z][\w.-]*", shown)))
    return unknown("flag", flag, known, f"those of `{name} --help`")


def _help(kind: Any, words: list[str], prog: str, options: dict[str, Any]) -> tuple[str, list[str]]:
    """The help of the command that the words name, and its words."""
    heard = io.StringIO()
    with suppress(SystemExit), registry, redirect_stdout(heard), redirect_stderr(io.StringIO()):
        tyro.cli(kind, prog=prog, args=[*words, "--help"], **options)
    if heard.getvalue() or not words:
        return heard.getvalue(), words
    return _help(kind, words[:-1], prog, options)


def _bad_value(where: str, reason: str) -> str:
    for said, expected in _EXPECTED.items():
        if reason.startswith(said):
            return f"{where.split('/')[-1]} expects {expected}; got {reason.removeprefix(said).strip()}"
    # A mistake that a configuration found itself names what it is about.
    return f"{where.split('/')[-1]}: {reason}" if where.startswith("--") else reason
