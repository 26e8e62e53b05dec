"""Pictures of what a model found. Each is a function that returns a figure; `save` writes it."""

from cocanet.figures.colours import BACKGROUND, PALETTE, background_slot, colour_segments
from cocanet.figures.compactness import compactness_figure, compactness_maps
from cocanet.figures.grid import discovery_grid
from cocanet.figures.hierarchy import hierarchy_figure
from cocanet.figures.save import save
from cocanet.figures.slots import slots_figure

__all__ = [
    "BACKGROUND",
    "PALETTE",
    "background_slot",
    "colour_segments",
    "compactness_figure",
    "compactness_maps",
    "discovery_grid",
    "hierarchy_figure",
    "save",
    "slots_figure",
]
