"""`coca doctor`."""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass
from importlib.metadata import version

MARGIN = " " * 23


@dataclass(frozen=True)
class Doctor:
    """Check this machine: what works, what does not, and the fix for each. Exit code 1 if something essential fails."""

    def run(self) -> None:
        from cocanet.doctor import examine

        if hasattr(sys.stdout, "reconfigure"):  # paths may have characters that the terminal's encoding lacks
            sys.stdout.reconfigure(errors="backslashreplace")
        machine = f"{platform.system()} {platform.machine()}"
        print(f"coca {version('cocanet')}, Python {platform.python_version()}, {machine}")
        findings = []
        for finding in examine():
            findings.append(finding)
            print(f"{finding.state:<8} {finding.what:<13} {finding.says}", flush=True)
            if finding.fix:
                print(f"{MARGIN}fix: {finding.fix}", flush=True)
        fatal = [finding.what for finding in findings if finding.fatal]
        others = [finding.what for finding in findings if finding.state != "works" and not finding.fatal]
        if fatal:
            print(f"Most commands fail until this is fixed: {', '.join(fatal)}.")
        else:
            tail = f"; without: {', '.join(others)}" if others else ""
            print(f"What every command needs is there{tail}.")
        sys.exit(1 if fatal else 0)
