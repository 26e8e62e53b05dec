import torch

from cocanet.layers.position import ShapeEmbedding


def test_shape_embedding_ignores_position_and_scale_of_the_mask():
    torch.manual_seed(0)
    shape = ShapeEmbedding(12, 16, 8, octaves=2)
    masks = torch.zeros(1, 3, 12, 16)
    masks[0, 0, 2:5, 3:7] = masks[0, 0, 5, 3] = 1
    masks[0, 1] = 0.1 * masks[0, 0].roll((4, 6), (0, 1))
    masks[0, 2] = masks[0, 0].flip(1)
    centres = torch.tensor([[[3, 4], [7, 10], [3, 11]]])
    original, moved, mirrored = shape.embed(masks, centres)[0]
    torch.testing.assert_close(moved, original, atol=1e-5, rtol=0)
    assert not torch.allclose(mirrored, original, atol=1e-3)
