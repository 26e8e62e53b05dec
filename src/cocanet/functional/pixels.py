"""The moment of inertia of a pixel, without torch: `predict/shapes.py` measures label maps with it."""

PIXEL_INERTIA = 1 / 6
"""Moment of inertia of a unit square about its centre."""
