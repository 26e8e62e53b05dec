import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cocanet.config.windows import grid_after
from cocanet.functional.windows import partition, unpartition

sides = st.integers(1, 4)


@given(sides, sides, sides, sides, sides)
def test_round_trip(rows, columns, height, width, per_cell):
    grid = torch.arange(rows * height * columns * width * per_cell * 2.0)
    grid = grid.view(1, rows * height, columns * width, per_cell, 2)
    windows = partition(grid, (height, width))
    assert windows.shape == (1, rows * columns, height * width * per_cell, 2)
    assert torch.equal(unpartition(windows, (height, width), (rows * height, columns * width)), grid)


def test_a_window_holds_neighbours_row_by_row():
    rows, columns = torch.meshgrid(torch.arange(4.0), torch.arange(6.0), indexing="ij")
    windows = partition(torch.stack((rows, columns), -1)[None, :, :, None], (2, 3))
    assert windows[0, 1].tolist() == [[0, 3], [0, 4], [0, 5], [1, 3], [1, 4], [1, 5]]
    assert windows[0, 2, 0].tolist() == [2, 0]


def test_nodes_of_a_cell_stay_together():
    grid = torch.arange(4.0).view(1, 1, 2, 2, 1)
    assert partition(grid, (1, 2)).flatten().tolist() == [0, 1, 2, 3]


def test_window_that_does_not_divide_is_named():
    for refuse in (
        lambda: grid_after((32, 30), (4, 4)),
        lambda: partition(torch.zeros(1, 32, 30, 1, 1), (4, 4)),
        lambda: unpartition(torch.zeros(1, 56, 16, 1), (4, 4), (32, 30)),
    ):
        with pytest.raises(ValueError, match="32×30 cells does not divide into windows of 4×4"):
            refuse()
