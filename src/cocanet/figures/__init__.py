"""Pictures of what a model found. Each is a function that returns a figure; `save` writes it.

`KINDS` is the table that `coca figure`, `coca demo` and the documentation read: a new picture is registered there.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cocanet.explain.compactness import compactness_maps
    from cocanet.figures.colours import BACKGROUND, PALETTE, background_slot, colour_segments
    from cocanet.figures.compactness import compactness_figure
    from cocanet.figures.grid import discovery_grid
    from cocanet.figures.hierarchy import hierarchy_figure
    from cocanet.figures.saving import save
    from cocanet.figures.slots import slots_figure

__all__ = [
    "BACKGROUND",
    "KINDS",
    "PALETTE",
    "Kind",
    "background_slot",
    "colour_segments",
    "compactness_figure",
    "compactness_maps",
    "discovery_grid",
    "hierarchy_figure",
    "save",
    "slots_figure",
]

_HOMES = {
    "BACKGROUND": "cocanet.figures.colours",
    "PALETTE": "cocanet.figures.colours",
    "background_slot": "cocanet.figures.colours",
    "colour_segments": "cocanet.figures.colours",
    "compactness_figure": "cocanet.figures.compactness",
    "compactness_maps": "cocanet.explain.compactness",
    "discovery_grid": "cocanet.figures.grid",
    "hierarchy_figure": "cocanet.figures.hierarchy",
    "save": "cocanet.figures.saving",
    "slots_figure": "cocanet.figures.slots",
}


@dataclass(frozen=True)
class Kind:
    """A picture of what a model finds: `draw(model, pictured)` in the module."""

    module: str
    about: str
    count: int
    """How many images it shows unless told."""
    one_image: bool = False
    by_tokens: bool = False
    """Whether only models with a decoder by tokens have it."""


KINDS = {
    "grid": Kind("cocanet.figures.grid", "image, reconstruction, truth and masks", 6),
    "hierarchy": Kind("cocanet.figures.hierarchy", "how one image's objects were put together", 1, one_image=True),
    "compactness": Kind("cocanet.figures.compactness", "of every pixel's masks", 6),
    "slots": Kind("cocanet.figures.slots", "each slot's own picture", 3),
    "generation": Kind(
        "cocanet.figures.generation", "photographs, and what slots alone tell by tokens", 6, by_tokens=True
    ),
}


def __getattr__(name: str) -> Any:
    # On first use only: whoever asks for the table alone need not wait for torch and matplotlib.
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'cocanet.figures' has no attribute {name!r}")
