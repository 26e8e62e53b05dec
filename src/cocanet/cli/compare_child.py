"""One training run of a comparison, in its own process: `python -m cocanet.cli.compare_child RUN`.

It reads the run's settings from standard input, and writes a note with its peak memory and its error, if any. The
peak must be read in this process: the one that Linux reports to a parent starts from the parent's own.
"""

from __future__ import annotations

import ctypes
import json
import signal
import sys
import traceback
from pathlib import Path

from cocanet.evaluate.compare import Note, read_note, write_note

_ON_PARENTS_DEATH = 1


def main(run: Path, settings: str) -> int:
    """Start or resume the run in the folder `run`; returns the exit code."""
    _end_with_parent()
    try:
        from cocanet.cli.progress import ConsoleProgress
        from cocanet.config.serialization import from_dict
        from cocanet.io.run_folder import RunFolder, Settings
        from cocanet.train import loop

        given = from_dict(Settings, json.loads(settings), "the settings of the run")
        loop.train(given, run, resume=RunFolder(run).exists, progress=ConsoleProgress())
        failed = None
    except KeyboardInterrupt as stop:
        _write(run, None)
        return 128 + int(getattr(stop, "signal", signal.SIGINT))
    except (ValueError, OSError) as error:
        failed = str(error)
    except Exception as error:
        failed = _reason(error)
    _write(run, failed)
    return 0 if failed is None else 1


def peak_bytes() -> int:
    """The peak memory of this process."""
    status = Path("/proc/self/status")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        return 1024 * int(lines["VmHWM"].split()[0])
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _write(run: Path, failed: str | None) -> None:
    before = read_note(run).peak_bytes or 0
    write_note(run, Note(max(before, peak_bytes()), failed))


def _reason(error: Exception) -> str:
    text = (str(error).splitlines() or [""])[0]
    if isinstance(error, MemoryError) or "allocate memory" in text or "out of memory" in text:
        return f"out of memory: {text}"
    traceback.print_exc()
    return f"{type(error).__name__}: {text}"


def _end_with_parent() -> None:
    """Save and stop when the comparison is killed, so that no second process ever trains in the folder."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_ON_PARENTS_DEATH, signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.stdin.read()))
