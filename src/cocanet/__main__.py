"""`coca`, and `python -m cocanet`: Ctrl-C while it loads, or a missing package, gets a line and no traceback."""

from __future__ import annotations

import sys


def main() -> None:
    try:
        try:
            from cocanet.cli import main as run
        except ImportError as error:
            sys.exit(f"coca: cannot start: {error}; `pip install --upgrade cocanet` brings what it needs")
        run()
    except KeyboardInterrupt:
        print("coca: interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
