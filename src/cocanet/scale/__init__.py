"""Segment more images than one process should: on all cores, on a cluster, into tables; and on others' data sets."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cocanet.scale.columns import ColumnSegmenter

__all__ = ["ColumnSegmenter"]


def __getattr__(name: str) -> Any:
    # On first use only: the commands read their settings from here, and need no torch for that.
    if name in __all__:
        return getattr(import_module("cocanet.scale.columns"), name)
    raise AttributeError(f"module 'cocanet.scale' has no attribute {name!r}")
