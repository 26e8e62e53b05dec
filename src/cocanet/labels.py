"""The one value of a label map that is neither background nor an object."""

from __future__ import annotations

UNLABELLED = 255
"""Fills the label map of an image without true segments, in a data set where other images have them."""
