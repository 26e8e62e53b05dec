import pytest
import torch

from cocanet.functional.resizing import enlarge, repeat_cells, shrink


@pytest.mark.parametrize("grid", [(4, 2), (16, 8)])
def test_enlarged_maps_are_interpolated_between_cell_centres(grid):
    maps = torch.rand(1, 1, *grid)
    out, cells = enlarge(maps, (16, 8))[0, 0], maps[0, 0]
    for row in range(16):
        for column in range(8):
            expected = 0.0
            for i in range(grid[0]):
                for j in range(grid[1]):
                    y = min(max((row + 0.5) * grid[0] / 16 - 0.5, 0), grid[0] - 1)
                    x = min(max((column + 0.5) * grid[1] / 8 - 0.5, 0), grid[1] - 1)
                    expected += max(0, 1 - abs(y - i)) * max(0, 1 - abs(x - j)) * cells[i, j].item()
            assert abs(out[row, column].item() - expected) < 1e-5


def test_repeated_cells_shrink_to_what_they_were():
    maps = torch.rand(2, 3, 4, 2)
    large = repeat_cells(maps, (16, 8))
    assert large.shape == (2, 3, 16, 8)
    assert torch.equal(large[:, :, 5, 7], maps[:, :, 1, 1])
    torch.testing.assert_close(shrink(large, (4, 2)), maps)


def test_a_cell_is_the_mean_of_its_pixels():
    maps = torch.arange(16.0).view(1, 1, 4, 4)
    assert shrink(maps, (2, 2)).flatten().tolist() == [2.5, 4.5, 10.5, 12.5]
    assert shrink(maps, (4, 4)) is maps
