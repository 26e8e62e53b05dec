"""The clustering steps of a level, over the cells of the image."""

import numpy as np
import torch

from cocanet.config import LevelConfig
from cocanet.explain.steps import clustering_steps, select_image
from tests.explain.panels import tiny_images, tiny_model

THREE_LEVELS = (LevelConfig((2, 3), 2, 1.0, 0), LevelConfig((2, 2), 3, 1.0, 0), LevelConfig((2, 2), 4, 1.0, 0))


def predict(**changes):
    with torch.no_grad():
        return tiny_model(**changes)(tiny_images())


def test_a_cluster_is_scope_times_affinity():
    levels = select_image(predict().levels, 0)
    for number in range(2):
        steps = clustering_steps(levels, number)
        if number == 0:  # above, a cell has several nodes, and products of means are not means of products
            np.testing.assert_allclose(steps.clusters[:-1], steps.scopes[:-1] * steps.affinities, atol=1e-5)
        assert (steps.scopes[0] > 1 - 1e-5).all()
        np.testing.assert_allclose(steps.scopes[-1], steps.clusters[-1], atol=1e-5)
        np.testing.assert_allclose(steps.scopes[:-1] - steps.clusters[:-1], steps.scopes[1:], atol=1e-5)


def test_clusters_of_the_last_level_are_the_encoder_masks():
    output = predict(levels=THREE_LEVELS)
    for index in range(2):
        steps = clustering_steps(select_image(output.levels, index), 2)
        np.testing.assert_allclose(steps.clusters, output.encoder_masks[index].numpy(), atol=1e-6)


def test_clusters_of_the_first_level_lie_in_their_windows():
    output = predict()
    steps = clustering_steps(select_image(output.levels, 1), 0)
    for window in range(8):
        row, column = window // 4 * 4, window % 4 * 3
        expected = output.levels[0].clusters.masks[1, window].view(3, 4, 3).numpy()
        np.testing.assert_array_equal(steps.clusters[:, row : row + 4, column : column + 3], expected)
