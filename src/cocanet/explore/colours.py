"""Colours of the page: of segments, told apart by everybody, and of compactness, the paper's."""

from __future__ import annotations

import numpy as np
from jaxtyping import UInt8
from matplotlib import colormaps

from cocanet.figures.compactness import COLOURS

SEGMENTS = ("#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7")
"""The colours of Okabe and Ito, which stay apart for the colour-blind; they repeat, and numbers tell the rest."""
BACKGROUND = "#565b64"


def landscape_colours() -> UInt8[np.ndarray, "256 3"]:
    """Compactness from 0 to 1, as in the figure."""
    return np.asarray(colormaps[COLOURS](np.arange(256), bytes=True)[:, :3], dtype=np.uint8)
