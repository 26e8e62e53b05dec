"""The same COCA-Net at another image size: weights fit both, only windows and the decoder's grid change."""

from __future__ import annotations

from dataclasses import replace

from cocanet.config.checks import by
from cocanet.config.coca_net import CocaNetConfig, DecoderConfig, LevelConfig
from cocanet.config.windows import Window


def at_image_size(config: CocaNetConfig, size: tuple[int, int]) -> CocaNetConfig:
    """The model for smaller images: windows below the last level shrink by as much as the image does.

    Factors of 2 are taken from the largest of these windows, from the upper one of two alike: (4, 4, 8) at 128 pixels
    becomes (4, 2, 8) at 64 and (2, 2, 8) at 32.
    """
    if size == config.image_size:
        return config
    if not isinstance(config.decoder, DecoderConfig) or config.grid != config.image_size:
        raise ValueError("only a model of pixels with a spatial broadcast decoder has other image sizes")
    steps = [_halvings(full, small, size) for full, small in zip(config.image_size, size, strict=True)]
    heights, widths = (_halved([level.window[axis] for level in config.levels], steps[axis], size) for axis in (0, 1))
    windows: list[Window] = list(zip(heights, widths, strict=True))
    height, width = (side >> count for side, count in zip(config.decoder.broadcast, steps, strict=True))
    return replace(
        config,
        image_size=size,
        levels=tuple(_with_window(level, window) for level, window in zip(config.levels, windows, strict=True)),
        decoder=replace(config.decoder, broadcast=(height, width)),
    )


def _with_window(level: LevelConfig, window: Window) -> LevelConfig:
    """The level with a smaller window, which keeps about as many candidate anchors."""
    stride = max(1, level.candidate_stride * min(window) // min(level.window))
    return replace(level, window=window, candidate_stride=stride)


def _halvings(full: int, small: int, size: tuple[int, int]) -> int:
    ratio = full // small if small > 0 and full % small == 0 else 0
    if ratio < 1 or ratio & (ratio - 1):
        raise ValueError(f"an image of {full} pixels a side cannot be halved to {by(size)}")
    return ratio.bit_length() - 1


def _halved(sides: list[int], times: int, size: tuple[int, int]) -> list[int]:
    sides = list(sides)
    for _ in range(times):
        *below, _ = sides
        at = max(range(len(below)), key=lambda level: (below[level] % 2 == 0, below[level], level), default=None)
        if at is None or below[at] < 4 or below[at] % 2:
            raise ValueError(f"the windows below the last level are too small for images of {by(size)}: {sides}")
        sides[at] //= 2
    return sides
