"""The rule that finds scenes with one wall, on rooms cast ray by ray, where the truth is known."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from cocanet.data.readers.published_labels import repair_labels, shows_one_wall

SKY, FLOOR, WALLS = 0, 1, 2
PIXELS = 64


class Room(NamedTuple):
    walls: int
    stored: np.ndarray
    truth: np.ndarray


def cast_room(generator: np.random.Generator, objects: int) -> Room:
    """A room of 7 × 7 with walls 1.5 to 2.5 high, spheres and cylinders on the floor, seen from inside."""
    angle, distance = generator.uniform(0, 2 * np.pi), generator.uniform(1.8, 3.0)
    eye = np.array([distance * np.cos(angle), distance * np.sin(angle), generator.uniform(0.8, 1.6)])
    yaw, pitch = angle + np.pi + generator.uniform(-0.3, 0.3), -generator.uniform(0.0, 0.3)
    across, up = np.meshgrid(*2 * [np.tan(np.pi / 6) * (2 * np.arange(PIXELS) + 1 - PIXELS) / PIXELS])
    forward = np.array([np.cos(yaw) * np.cos(pitch), np.sin(yaw) * np.cos(pitch), np.sin(pitch)])
    right = np.array([np.sin(yaw), -np.cos(yaw), 0.0])
    rays = forward + across[..., None] * right - up[..., None] * np.cross(right, forward)
    entity = np.full((PIXELS, PIXELS), SKY)
    nearest = np.full((PIXELS, PIXELS), np.inf)

    def hit(number: int, distances: np.ndarray, valid: np.ndarray) -> None:
        closer = valid & (distances > 0) & (distances < nearest)
        entity[closer], nearest[closer] = number, distances[closer]

    with np.errstate(divide="ignore", invalid="ignore"):
        floor = -eye[2] / rays[..., 2]
        inside = np.abs(eye[:2] + floor[..., None] * rays[..., :2]).max(axis=-1) <= 3.5
        hit(FLOOR, floor, inside)
        height = generator.uniform(1.5, 2.5)
        for number, (axis, side) in enumerate(((0, -3.5), (0, 3.5), (1, -3.5), (1, 3.5))):
            wall = (side - eye[axis]) / rays[..., axis]
            points = eye + wall[..., None] * rays
            hit(10 + number, wall, (np.abs(points[..., 1 - axis]) <= 3.5) & (points[..., 2] <= height))
        for number in range(objects):
            place, radius = generator.uniform(-1.5, 1.5, 2), generator.uniform(0.2, 0.6)
            if np.linalg.norm(place - eye[:2]) < 1.0 + radius:
                continue
            ball = generator.random() < 0.5
            axes = slice(None) if ball else slice(0, 2)
            centre = np.array([*place, radius])[axes] - eye[axes]
            square = (rays[..., axes] ** 2).sum(-1)
            middle = (rays[..., axes] @ centre) / square
            reach = np.sqrt(middle**2 - (centre @ centre - radius**2) / square)
            distances = middle - reach
            high = eye[2] + distances * rays[..., 2]
            hit(20 + number, distances, np.isfinite(reach) & ((high <= 2 * radius) | ball) & (high >= 0))
    return number_labels(generator, entity)


def number_labels(generator: np.random.Generator, entity: np.ndarray) -> Room:
    """Close the numbers up as the published files do, and keep four for the background as they should be."""
    walls = generator.permutation([value for value in np.unique(entity) if 10 <= value < 20])
    objects = [value for value in np.unique(entity) if value >= 20]
    stored, truth = entity.astype(np.uint8), entity.astype(np.uint8)
    for number, wall in enumerate(walls):
        stored[entity == wall] = truth[entity == wall] = WALLS + number
    for number, value in enumerate(objects):
        stored[entity == value] = WALLS + len(walls) + number
        truth[entity == value] = 4 + number
    return Room(len(walls), stored, truth)


@pytest.mark.parametrize(("objects", "entities"), [(3, 7), (6, 10)])
def test_cast_rooms_are_repaired(objects: int, entities: int) -> None:
    generator = np.random.default_rng(objects)
    wanted, wrong = {1: 30, 2: 150}, {1: 0, 2: 0}
    while any(wanted.values()):
        room = cast_room(generator, objects)
        if not wanted.get(room.walls) or room.stored.max() < 3 or not (room.stored == SKY).any():
            continue
        wanted[room.walls] -= 1
        wrong[room.walls] += not np.array_equal(repair_labels(room.stored, entities), room.truth)
    assert wrong[1] <= 1
    assert wrong[2] <= 3


def room(corner: int | None) -> np.ndarray:
    labels = np.zeros((64, 64), dtype=np.uint8)
    labels[10:30], labels[30:] = 2, 1
    if corner is not None:
        labels[10:30, corner:] = 3
    return labels


def test_two_walls_stay() -> None:
    labels = room(corner=40)
    labels[35:45, 20:30] = 4
    np.testing.assert_array_equal(repair_labels(labels, 7), labels)


def test_an_object_before_the_only_wall_moves_up() -> None:
    labels = room(corner=None)
    labels[25:45, 20:30], labels[25:45, 50:] = 3, 4
    repaired = repair_labels(labels, 7)
    assert set(np.unique(repaired)) == {0, 1, 2, 4, 5}
    np.testing.assert_array_equal(repaired == 4, labels == 3)


def test_an_object_that_hides_the_wall_at_the_side_moves_up() -> None:
    labels = room(corner=None)
    labels[8:45, 55:] = 3
    assert shows_one_wall(labels, 7)


def test_a_full_scene_has_both_walls() -> None:
    labels = room(corner=62)
    labels[5:50, 61:], labels[50:55, 10:13] = 3, 6
    assert not shows_one_wall(labels, 7)


def test_an_empty_room_is_left_alone() -> None:
    np.testing.assert_array_equal(repair_labels(room(corner=None), 4), room(corner=None))
