"""`coca`, and `python -m cocanet`: whoever presses Ctrl-C while it still loads gets a word, not a traceback."""

from __future__ import annotations

import sys


def main() -> None:
    try:
        from cocanet.cli import main as run

        run()
    except KeyboardInterrupt:
        print("coca: interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
