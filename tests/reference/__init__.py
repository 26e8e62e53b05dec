"""Slow transcriptions of the equations, in NumPy loops: what the fast code is checked against."""
