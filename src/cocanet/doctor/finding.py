"""One thing that was looked at, and how it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

State = Literal["works", "missing", "broken"]
"""`missing` is what can be done without; what is `broken` should work and does not."""


class Finding(NamedTuple):
    what: str
    state: State
    says: str
    fix: str | None = None
    """What to do about it, or what would make it better."""
    essential: bool = False
    """Whether nothing much works without it."""

    @property
    def fatal(self) -> bool:
        return self.essential and self.state != "works"


def guarded(what: str, check: Callable[[], Finding], *, essential: bool = False) -> Finding:
    """What a check finds, or that it could not be carried out: a broken machine may fail in any way."""
    try:
        return check()._replace(essential=essential)
    except Exception as error:
        return Finding(what, "broken", in_a_line(error), essential=essential)


def in_a_line(error: Exception) -> str:
    """The kind of an error, and the first line of what it says."""
    said = str(error).strip().splitlines()
    return f"{type(error).__name__}: {said[0]}" if said else type(error).__name__
