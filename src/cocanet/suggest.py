"""What to tell a user who misspelt a name."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


def unknown(what: str, given: str, known: Sequence[str], listed: str | None = None) -> str:
    """`given` is none of the `known` names: the nearest of them, and all (or as `listed` puts them)."""
    spelled = given.lower().replace("_", "-").replace(" ", "-")
    near = difflib.get_close_matches(spelled, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"unknown {what} {given!r}: {hint}there are {listed or ', '.join(known)}"
