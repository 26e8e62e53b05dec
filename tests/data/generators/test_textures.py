from __future__ import annotations

import numpy as np
import pytest

from cocanet.data.generators.noise import cells, clouds
from cocanet.data.generators.textures import KINDS, height_at, lit_relief, make_texture, to_bytes


def test_a_texture_is_seeded_varied_and_in_range() -> None:
    for kind in KINDS:
        first, again, other = (make_texture(kind, np.random.default_rng(s), 64) for s in (1, 1, 2))
        np.testing.assert_array_equal(first.colour, again.colour)
        assert np.abs(first.colour - other.colour).mean() > 0.01
        assert first.colour.min() >= 0
        assert first.colour.max() <= 1
        assert first.colour.std(axis=(0, 1)).max() > 0.01
        assert np.abs(first.height).max() <= 1


def test_a_texture_wraps_around_without_a_seam() -> None:
    """The step across the border is like the steps inside, in every direction."""
    for kind in KINDS:
        steps, borders = [], []
        for seed in range(4):
            colour = make_texture(kind, np.random.default_rng(seed), 64).colour
            for axis in (0, 1):
                jumps = np.abs(np.roll(colour, -1, axis) - colour).mean(axis=(1 - axis, 2))
                borders.append(jumps[-1])
                steps.append(jumps[:-1].max())
        assert np.mean(borders) <= 1.15 * np.mean(steps) + 0.01, kind


def test_noise_fills_the_unit_range() -> None:
    field = clouds(np.random.default_rng(0), 64)
    assert field.min() == 0
    assert field.max() == 1


def test_cells_name_the_nearest_seed() -> None:
    found = cells(np.random.default_rng(0), 64, 16)
    assert np.all(found.nearest <= found.second)
    assert set(np.unique(found.seed)) == set(range(16))


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(ValueError, match="'velvet'"):
        make_texture("velvet", np.random.default_rng(0), 32)


def test_relief_is_bright_on_the_side_of_the_light() -> None:
    ramp = np.tile(np.minimum(np.arange(32), 31 - np.arange(32)) / 16, (32, 1))
    shade = lit_relief(ramp, 1.0, np.array([-1.0, 0.0]))
    assert shade[16, 8] > 1 > shade[16, 24]


def test_heights_are_read_at_wrapped_coordinates() -> None:
    texture = make_texture("bricks", np.random.default_rng(0), 32)
    at = np.array([[0.25, 0.5], [1.25, -0.5]], np.float32)
    np.testing.assert_array_equal(height_at(texture, at), texture.height[16, 8])


def test_bytes_round() -> None:
    np.testing.assert_array_equal(to_bytes(np.array([[0.0, 0.5, 1.2]])), [[0, 128, 255]])
