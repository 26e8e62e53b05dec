import math

import pytest
import torch

from cocanet.functional.windows import partition, unpartition
from cocanet.layers.attention import GlobalReach, NeighbourhoodReach, RefineBlock, WindowReach


def slow_refine(block, grid, sees):
    """The block on a grid of cells, each query by itself; `sees(cell, other)` says what it attends to."""
    _, rows, columns, per_cell, dim = grid.shape
    nodes = grid.reshape(-1, dim)
    cells = [(r, c) for r in range(rows) for c in range(columns) for _ in range(per_cell)]
    x = block.norm(nodes.unsqueeze(0))[0]
    queries, keys = (block.norm(layer(x).unsqueeze(0))[0] for layer in (block.query, block.key))
    values = block.value(x)
    head = dim // block.heads
    mixed = torch.zeros_like(nodes)
    for i, cell in enumerate(cells):
        seen = [j for j, other in enumerate(cells) if sees(cell, other)]
        for h in range(block.heads):
            part = slice(h * head, (h + 1) * head)
            logits = torch.stack([(queries[i, part] * keys[j, part]).sum() / math.sqrt(head) for j in seen])
            mixed[i, part] = (logits.softmax(0).unsqueeze(-1) * values[seen][:, part]).sum(0)
    return (nodes + block.out(mixed) + block.mlp(x)).view_as(grid)


@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_neighbourhood_attends_to_the_cells_around(kernel):
    torch.manual_seed(0)
    window, grid_size, per_cell = (2, 3), (4, 6), 2
    block = RefineBlock(8, 4, NeighbourhoodReach(kernel, window, grid_size, per_cell), "node").double()
    grid = torch.randn(1, *grid_size, per_cell, 8, dtype=torch.float64)
    ours = unpartition(block(partition(grid, window)), window, grid_size)
    half = kernel // 2
    expected = slow_refine(block, grid, lambda a, b: abs(a[0] - b[0]) <= half and abs(a[1] - b[1]) <= half)
    torch.testing.assert_close(ours, expected, atol=1e-9, rtol=0)


@pytest.mark.parametrize(
    ("reach", "sees"),
    [
        (WindowReach(), lambda a, b: (a[0] // 2, a[1] // 3) == (b[0] // 2, b[1] // 3)),
        (GlobalReach(), lambda a, b: True),
    ],
)
def test_window_and_global_attention(reach, sees):
    torch.manual_seed(0)
    block = RefineBlock(8, 2, reach, "node").double()
    grid = torch.randn(1, 4, 6, 2, 8, dtype=torch.float64)
    ours = unpartition(block(partition(grid, (2, 3))), (2, 3), (4, 6))
    torch.testing.assert_close(ours, slow_refine(block, grid, sees), atol=1e-9, rtol=0)


def test_an_even_neighbourhood_is_refused():
    with pytest.raises(ValueError, match=r"odd side.*got 4"):
        NeighbourhoodReach(4, (2, 2), (4, 4), 1)


def test_heads_must_divide_the_features():
    with pytest.raises(ValueError, match="8 features do not divide among 3"):
        RefineBlock(8, 3, WindowReach(), "node")
