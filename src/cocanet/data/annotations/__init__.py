"""Masks as annotation formats hold them: run lengths and polygons."""
