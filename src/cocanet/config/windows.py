"""How windows divide a grid of cells, in numbers."""

from __future__ import annotations

Window = tuple[int, int]


def grid_after(grid: tuple[int, int], window: Window) -> tuple[int, int]:
    """Cells that remain when each window of a grid becomes one cell."""
    (rows, columns), (height, width) = grid, window
    if rows % height or columns % width:
        raise ValueError(f"a grid of {rows}×{columns} cells does not divide into windows of {height}×{width}")
    return rows // height, columns // width


def dilated_candidates(window: Window, per_cell: int, stride: int) -> list[int]:
    """Indices of the nodes in every `stride`-th cell of a window, in both directions, from the middle of a step."""
    height, width = window
    first = (stride - 1) // 2
    return [
        (row * width + column) * per_cell + node
        for row in range(min(first, height - 1), height, stride)
        for column in range(min(first, width - 1), width, stride)
        for node in range(per_cell)
    ]
