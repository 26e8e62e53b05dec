"""The command `coca`: the only place that parses arguments.

A command is a dataclass whose fields are its flags and whose `run` does the work; it imports what it needs only then,
so that `coca --help` answers at once.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True)
class Demo:
    """Train on generated Tetrominoes for about a minute, print the scores and draw what was found."""

    out: Path = Path("demo")
    """Folder for the picture and the weights."""

    def run(self) -> None:
        from cocanet.demo import run_demo

        run_demo(self.out)


Command = Annotated[Demo, tyro.conf.subcommand("demo")]


def main(arguments: list[str] | None = None) -> None:
    """Parse and run one command; a user's mistake ends with one line and exit code 2."""
    command = tyro.cli(Command, prog="coca", description=__doc__.splitlines()[0], args=arguments)  # type: ignore[var-annotated, arg-type]
    try:
        command.run()
    except (ValueError, OSError) as error:
        print(f"coca: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("coca: interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
