"""Packages that not everybody needs: what to say where one is missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def extra(module: str, name: str, what: str) -> Any:
    """A module that the extra `name` brings; where it is missing, a ValueError says what for and how to get it."""
    try:
        return import_module(module)
    except ImportError:
        package = module.split(".")[0]
        raise ValueError(f"{what} with {package}, which is not installed: pip install 'cocanet[{name}]'") from None
