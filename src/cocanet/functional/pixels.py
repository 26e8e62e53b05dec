"""What a pixel is: a unit square. No torch, for those who measure label maps."""

PIXEL_INERTIA = 1 / 6
"""Moment of inertia of a unit square about its centre."""
