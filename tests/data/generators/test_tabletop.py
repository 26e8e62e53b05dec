from __future__ import annotations

import numpy as np

from cocanet.data.generators import tabletop


def test_placed_objects_keep_every_rule() -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        camera = tabletop.sample_camera(rng)
        radii = [0.7, 0.35, 0.7, 0.35, 0.35]
        spots = tabletop.place(rng, radii, radii, camera)
        assert spots is not None
        right, forward = tabletop.ground_axes(camera)
        for i in range(5):
            column, row, _ = camera.project(np.array([[*spots[i], radii[i]]]), 100)[0]
            assert 2 < column < 98
            assert 2 < row < 98
            assert np.abs(spots[i]).max() <= 3
            for j in range(i):
                offset = spots[i] - spots[j]
                assert np.hypot(*offset) - radii[i] - radii[j] >= 0.25
                assert abs(offset @ right) >= 0.4
                assert abs(offset @ forward) >= 0.4


def test_a_crowd_that_does_not_fit_is_given_up() -> None:
    rng = np.random.default_rng(0)
    camera = tabletop.sample_camera(rng)
    assert tabletop.place(rng, [2.5, 2.5, 2.5], [0.7] * 3, camera) is None


def test_the_ground_axes_are_level_and_square() -> None:
    axes = tabletop.ground_axes(tabletop.sample_camera(np.random.default_rng(1)))
    np.testing.assert_allclose(axes @ axes.T, np.eye(2), atol=1e-12)


def test_camera_and_lamps_stay_within_their_jitter() -> None:
    rng = np.random.default_rng(0)
    for _ in range(5):
        camera = tabletop.sample_camera(rng)
        assert np.abs(camera.position - tabletop.CAMERA).max() <= 0.5
        exposures = tabletop.sample_lamps(rng)
        for number, (centre, _, spread) in enumerate(tabletop.LAMPS):
            for lamps in exposures:
                shadowed = [lamp for lamp in lamps if lamp.shadow][number]
                assert np.abs(shadowed.position - centre).max() <= 1 + spread
