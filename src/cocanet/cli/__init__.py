"""The command `coca`: the only package that parses arguments and prints.

A command is a dataclass: its fields are flags, and `run` does the work. Heavy packages are imported in `run`, so that
`coca --help` answers at once.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from importlib.metadata import version
from io import TextIOWrapper
from typing import Any

from cocanet.runtime import spin_briefly


def main(arguments: list[str] | None = None) -> None:
    """Parse and run one command; a user's mistake ends with one line and exit code 2."""
    spin_briefly()
    _print_any_name()
    given = sys.argv[1:] if arguments is None else arguments
    try:
        if given == ["--version"]:
            print(f"coca {version('cocanet')}")
        else:
            _parser()(given).run()
    except BrokenPipeError:
        # The reader of the output has closed it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (ValueError, OSError) as error:
        print(f"coca: {_in_words(error)}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt as stop:
        print(f"coca: {str(stop) or 'interrupted'}", file=sys.stderr)
        sys.exit(128 + getattr(stop, "signal", signal.SIGINT))


def _parser() -> Callable[[list[str]], Any]:
    try:
        from cocanet.cli.commands import parse
    except ImportError as error:
        sys.exit(f"coca: cannot start: {error}; `pip install --upgrade cocanet` installs what is missing")
    return parse


def _print_any_name() -> None:
    """Print names of files that are not UTF-8 as the bytes that they are."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="surrogateescape")


def _in_words(error: Exception) -> str:
    """The message of an error; those of the operating system lose their number."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)
