"""Optional packages."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def extra(module: str, name: str, what: str) -> Any:
    """A module of the extra `name`; where it is missing, a ValueError says what needs it and how to install it."""
    try:
        return import_module(module)
    except ImportError:
        package = module.split(".")[0]
        raise ValueError(f"{what} with {package}, which is not installed: pip install 'cocanet[{name}]'") from None
