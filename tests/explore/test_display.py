"""The small parts: messages, the cache, display sizes, colours."""

import threading
import time

import numpy as np
import pytest

from cocanet.explore.cache import Cache
from cocanet.explore.display import (
    BACKGROUND_COLOUR,
    MAX_SIDE,
    SEGMENT_COLOURS,
    compactness_colours,
    display_image,
    display_labels,
    display_size,
)
from cocanet.explore.messages import Message, pack, unpack


def test_a_message_comes_back_as_it_was():
    arrays = {
        "odd": np.arange(7, dtype=np.uint8),
        "maps": np.random.default_rng(0).random((2, 3, 5)).astype(np.float32),
        "not": np.array([np.nan, 1], dtype=np.float32),
        "turned": np.arange(6, dtype=np.int32).reshape(2, 3).T,
        "none": np.zeros((0, 4), dtype=np.uint16),
    }
    data = pack(Message({"words": "größer", "list": [1, None]}, arrays))
    back = unpack(data)
    assert back.header == {"words": "größer", "list": [1, None]}
    for name, array in arrays.items():
        assert back.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(back.arrays[name], array)
    assert (4 + int.from_bytes(data[:4], "little")) % 8 == 0


def test_a_cache_makes_each_value_once_for_all_threads():
    cache, made = Cache[int](2), []

    def make() -> int:
        made.append(1)
        time.sleep(0.05)
        return 7

    threads = [threading.Thread(target=cache.get, args=("a", make)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert cache.get("a", make) == 7


def test_a_cache_keeps_the_latest_and_no_errors():
    cache = Cache[int](2)
    for key in "abc":
        cache.get(key, lambda: 1)
    assert len(cache) == 2
    assert cache.peek("a") is None
    with pytest.raises(ZeroDivisionError):
        cache.get("d", lambda: 1 // 0)
    assert cache.get("d", lambda: 5) == 5


def test_a_cache_holds_no_more_than_its_size():
    cache = Cache[bytes](100, 10, len)
    for key in range(5):
        cache.get(key, lambda: b"four")
    assert len(cache) == 2


def test_small_images_are_shown_pixel_for_pixel_and_large_ones_reduced():
    labels = np.random.default_rng(0).integers(0, 9, (50, 70))
    np.testing.assert_array_equal(display_labels(labels), labels)
    assert display_size((3000, 2000)) == (MAX_SIDE, round(MAX_SIDE * 2 / 3))
    large = np.repeat(np.repeat(labels, 60, 0), 60, 1)
    shown = display_labels(large)
    assert shown.shape == display_size((3000, 4200))
    rows = ((np.arange(shown.shape[0]) + 0.5) * 3000 / shown.shape[0]).astype(int)
    columns = ((np.arange(shown.shape[1]) + 0.5) * 4200 / shown.shape[1]).astype(int)
    np.testing.assert_array_equal(shown, large[np.ix_(rows, columns)])
    assert display_image(np.zeros((3000, 4200, 3), np.uint8)).shape[:2] == shown.shape


def linear(colour: str) -> np.ndarray:
    values = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(values: np.ndarray) -> np.ndarray:
    """CIE L*a*b* of linear sRGB."""
    matrix = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = matrix @ np.clip(values, 0, 1) / np.array([0.9505, 1, 1.089])
    fx, fy, fz = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z))
    return np.array([116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)])


SIGHT = {
    "usual": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
"""Colours as the colour-blind see them (Machado, Oliveira and Fernandes 2009), on linear sRGB."""


def test_everyone_can_distinguish_segments():
    for name, sight in SIGHT.items():
        seen = [lab(sight @ linear(colour)) for colour in (*SEGMENT_COLOURS, BACKGROUND_COLOUR)]
        distances = [np.linalg.norm(a - b) for i, a in enumerate(seen) for b in seen[:i]]
        assert min(distances) > (50 if name == "usual" else 25)  # a difference of about 2 can just be seen


def test_compactness_has_the_figures_colours():
    colours = compactness_colours()
    assert colours.shape == (256, 3)
    assert colours[0].tolist() == [68, 1, 84]  # deep purple for scattered masks
    assert colours[255].tolist() == [253, 231, 36]  # bright yellow for compact ones
