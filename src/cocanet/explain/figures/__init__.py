"""Figures of what a model predicts. Each is a function that returns a matplotlib figure; `save` writes it.

`KINDS` is the table that `coca figure`, `coca demo` and the documentation read: a new figure is registered there.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cocanet.explain.compactness import compactness_maps
    from cocanet.explain.figures.canvas import save
    from cocanet.explain.figures.colours import BACKGROUND, PALETTE, background_slot, colour_segments
    from cocanet.explain.figures.grids import compactness_figure, discovery_grid
    from cocanet.explain.figures.hierarchy import hierarchy_figure
    from cocanet.explain.figures.slots import slots_figure

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

_MODULES = {
    "cocanet.explain.compactness": ("compactness_maps",),
    "cocanet.explain.figures.canvas": ("save",),
    "cocanet.explain.figures.colours": ("BACKGROUND", "PALETTE", "background_slot", "colour_segments"),
    "cocanet.explain.figures.grids": ("compactness_figure", "discovery_grid"),
    "cocanet.explain.figures.hierarchy": ("hierarchy_figure",),
    "cocanet.explain.figures.slots": ("slots_figure",),
}


@dataclass(frozen=True)
class Kind:
    """A figure: `function(model, images, truth, background_labels)` of a module of this package draws it."""

    module: str
    function: str
    about: str
    count: int
    """Images that it shows by default."""
    one_image: bool = False
    token_decoder: bool = False
    """Whether it needs a model with a token decoder."""


KINDS = {
    "grid": Kind("grids", "draw_grid", "image, reconstruction, ground truth and masks", 6),
    "hierarchy": Kind(
        "hierarchy", "draw_hierarchy", "anchors and clusters of one image, level by level", 1, one_image=True
    ),
    "compactness": Kind("grids", "draw_compactness", "compactness of every pixel's masks", 6),
    "slots": Kind("slots", "draw_slots", "image and mask of each slot", 3),
    "generation": Kind("grids", "draw_generation", "images generated from slots", 6, token_decoder=True),
}


def __getattr__(name: str) -> Any:
    # On first use: the table alone must not import torch and matplotlib.
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'cocanet.explain.figures' has no attribute {name!r}")
