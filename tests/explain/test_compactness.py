import numpy as np
import pytest
import torch

from cocanet.config import LevelConfig
from cocanet.explain import compactness as module
from cocanet.explain.compactness import compactness_maps, node_compactness, object_compactness
from cocanet.functional.geometry import pixel_geometry
from cocanet.functional.windows import partition
from tests.explain.panels import CONFIG, tiny_images, tiny_model
from tests.functional.scenes import as_nodes
from tests.reference import equations


def level_inputs(model, images) -> list[tuple]:
    """The inputs of each COCA layer, recorded by hooks."""
    inputs = []
    hooks = [
        level.coca.register_forward_pre_hook(lambda _, args: inputs.append(args)) for level in model.hierarchy.levels
    ]
    with torch.no_grad():
        model.encode(images)
    for hook in hooks:
        hook.remove()
    return inputs


def reference_scores(layer, nodes, geometry, temperature, cells) -> np.ndarray:
    """Eqs. 1 and 3 in loops, for the nodes of one window."""
    with torch.no_grad():
        features = layer.norm(layer.query(layer.norm(nodes))).numpy().astype(np.float64)
    affinities = equations.affinity(equations.distances(features, temperature, cells))
    nodes = as_nodes(geometry)
    scored = zip(affinities, nodes, strict=True)
    return np.array([equations.compactness(mask, nodes, node.row, node.column) for mask, node in scored])


def test_maps_are_the_scores_of_the_equations():
    model, images = tiny_model(), tiny_images()
    maps = compactness_maps(model, images)
    inputs = level_inputs(model, images)
    assert [x.shape for x in maps.levels] == [(2, 8, 12)] * 2
    for window in range(8):
        row, column = window // 4 * 4, window % 4 * 3
        geometry = inputs[0][1].each(lambda x, w=window: x[0, w])
        expected = reference_scores(model.hierarchy.levels[0].coca, inputs[0][0][1, window], geometry, 2.0, 12)
        np.testing.assert_allclose(
            maps.levels[0][1, row : row + 4, column : column + 3].numpy(), expected.reshape(4, 3), rtol=1e-3
        )
    top = reference_scores(
        model.hierarchy.levels[1].coca, inputs[1][0][1, 0], inputs[1][1].each(lambda x: x[1, 0]), 2.0, 8
    )
    with torch.no_grad():
        masks = model(images).levels[0].clusters.masks[1]
    for row in range(8):
        for column in range(12):
            cell, pixel = row // 4 * 4 + column // 3, row % 4 * 3 + column % 3
            node = cell * 3 + int(masks[cell, :, pixel].argmax())
            assert float(maps.levels[1][1, row, column]) == pytest.approx(top[node], rel=1e-3)


def test_objects_are_scored_about_each_of_their_pixels():
    masks = torch.rand(1, 3, 4, 5, generator=torch.Generator().manual_seed(1)).softmax(1)
    ours = object_compactness(masks)[0]
    nodes = [equations.Node(1, 1, 1 / 6, row, column) for row in range(4) for column in range(5)]
    for row in range(4):
        for column in range(5):
            mask = masks[0, masks[0, :, row, column].argmax()].double().numpy().ravel()
            assert float(ours[row, column]) == pytest.approx(equations.compactness(mask, nodes, row, column), rel=1e-4)


def test_an_objects_centre_is_its_most_compact_pixel():
    labels = torch.zeros(1, 9, 9, dtype=torch.long)
    labels[:, 2:7, 3:8] = 1
    masks = torch.nn.functional.one_hot(labels, 2).permute(0, 3, 1, 2).float()
    scores = object_compactness(masks)[0]
    inside = torch.where(labels[0] == 1, scores, torch.zeros(()))
    assert divmod(int(inside.argmax()), 9) == (4, 5)
    assert 0.9 < inside.max() < 1, "a square is nearly a disc"


def test_scores_agree_with_the_layer_at_any_chunk_size(monkeypatch):
    """With every node a candidate, the layer's own scores are these."""
    model, images = tiny_model(), tiny_images()
    (nodes, geometry), _ = level_inputs(model, images)
    layer = model.hierarchy.levels[0].coca
    with torch.no_grad():
        expected = layer(nodes, geometry).compactness
        whole = node_compactness(layer, nodes, geometry)
        monkeypatch.setattr(module, "_AT_ONCE", 2 * 8 * 12 * 5)
        chunks = node_compactness(layer, nodes, geometry)
    torch.testing.assert_close(whole, expected)
    torch.testing.assert_close(chunks, expected)


def test_nodes_that_are_no_candidates_are_scored_too():
    levels = (LevelConfig((2, 3), 2, 1.0, 0, candidate_stride=2), LevelConfig((4, 4), 4, 1.0, 0, candidate_stride=2))
    for rule in ("compact", "random"):
        maps = compactness_maps(tiny_model(levels=levels, anchors=rule), tiny_images())
        for scores in (*maps.levels, maps.objects):
            assert scores.shape == (2, 8, 12)
            assert (scores > 0).all()


def test_the_first_levels_nodes_are_the_partitioned_pixels():
    """The maps rely on the order of nodes in a window."""
    positions = partition(pixel_geometry(*CONFIG.image_size).position[None, :, :, None], (4, 3))
    _, geometry = level_inputs(tiny_model(), tiny_images())[0]
    torch.testing.assert_close(geometry.position, positions)
