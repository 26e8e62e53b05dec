"""Borders that follow the image: segments cut in two or into pieces, and the object in a box.

Nothing here is learned. Large segments are solved at a reduced size, and the border is interpolated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8
from PIL import Image
from scipy import ndimage

from cocanet.explore.drawing import Point, Size, box_corners, draw_polygon, draw_stroke
from cocanet.refine.mean_field import pairwise_messages, pairwise_weights

SOLVED_SIDE = 200
"""Longer side of what is solved at once, in pixels."""
BAND = 0.08
"""How far from a drawn line the border may be, in units of the square root of the segment's area."""
PIECES = 12
"""A split by colour makes about this many pieces at most."""
SCALE = 8.0
"""Of a split by colour, in units of the smallest piece; larger makes fewer pieces."""
BETA = 300
"""How slowly a random walker crosses edges of the image."""
BINS, ROUNDS, UPDATES = 16, 5, 10
COLOUR_WEIGHT, CENTRE_WEIGHT, PAIRWISE_WEIGHT = 0.7, 0.7, 4.0
RADIUS, COLOUR_SIGMA = 3, 0.08


def cut_along(
    pixels: UInt8[np.ndarray, "h w 3"], mask: Bool[np.ndarray, "h w"], line: Sequence[Point]
) -> Bool[np.ndarray, "h w"]:
    """One of the two parts of a mask that a line divides; near the line the border follows the image."""
    side = _side_of(mask, line)
    if not side.any() or (side == mask).all():
        raise ValueError("the line does not divide this segment; draw it from one border of the segment to another")
    reach = BAND * math.sqrt(mask.sum())
    while reach >= 1:
        band = draw_stroke(_size(mask), line, reach) & mask
        first, second = side & ~band, mask & ~side & ~band
        if first.sum() >= 0.3 * side.sum() and second.sum() >= 0.3 * (mask & ~side).sum():
            return np.asarray(np.where(band, _walk(pixels, mask, first, second, side), side))
        reach /= 2
    return side


def cut_between(
    pixels: UInt8[np.ndarray, "h w 3"], mask: Bool[np.ndarray, "h w"], first: Point, second: Point
) -> Bool[np.ndarray, "h w"]:
    """The part of a mask that belongs to the first of two points rather than to the second."""
    radius = max(1.0, 0.04 * math.sqrt(mask.sum()))
    near, far = (draw_stroke(_size(mask), [point], radius) & mask for point in (first, second))
    if not (near.any() and far.any()):
        raise ValueError("both points must lie in the segment that is cut")
    if (near & far).any():
        raise ValueError("the two points are too close together; choose points further apart")
    rows, columns = (np.arange(side) + 0.5 for side in mask.shape)
    distances = [(columns - x) ** 2 + (rows[:, None] - y) ** 2 for x, y in (first, second)]
    return _walk(pixels, mask, near, far, mask & (distances[0] < distances[1]))


def colour_pieces(pixels: UInt8[np.ndarray, "h w 3"], mask: Bool[np.ndarray, "h w"]) -> list[Bool[np.ndarray, "h w"]]:
    """A mask in pieces of like colour, by the graph of Felzenszwalb and Huttenlocher (2004)."""
    from skimage.segmentation import felzenszwalb

    box = _box(mask)
    inside = mask[box]
    small = _reduced(pixels[box], 2 * SOLVED_SIDE)
    least = max(4, int(0.02 * inside.mean() * small.shape[0] * small.shape[1]))
    while True:
        found = _enlarged(felzenszwalb(small, scale=SCALE * least, sigma=0.8, min_size=least), _size(inside))
        labels = np.unique(found[inside])
        if len(labels) <= PIECES:
            break
        least = math.ceil(1.5 * least)
    pieces = []
    for label in labels:
        piece = np.zeros_like(mask)
        piece[box] = inside & (found == label)
        pieces.append(piece)
    return pieces


def object_in_box(pixels: UInt8[np.ndarray, "h w 3"], first: Point, second: Point) -> Bool[np.ndarray, "h w"]:
    """The object in a box: its colours are frequent inside and rare around the box, and it is near the middle.

    Histograms of object and surroundings are fitted in turn with the mask, which a mean field of neighbours smooths.
    """
    height, width = pixels.shape[:2]
    (left, right), (top, bottom) = (
        np.clip(sorted(ends), 0, side).tolist()
        for ends, side in zip(zip(first, second, strict=True), (width, height), strict=True)
    )
    if min(right - left, bottom - top) < 2:
        raise ValueError("this box is too small; draw it around an object")
    around_x, around_y = 4 + 0.35 * (right - left), 4 + 0.2 * (bottom - top)
    view = (
        slice(max(0, int(top - around_y)), min(height, math.ceil(bottom + around_y))),
        slice(max(0, int(left - around_x)), min(width, math.ceil(right + around_x))),
    )
    small = _reduced(pixels[view], SOLVED_SIDE)
    scale = small.shape[0] / pixels[view].shape[0]
    rows = (np.arange(small.shape[0]) + 0.5) / scale + view[0].start
    columns = (np.arange(small.shape[1]) + 0.5) / scale + view[1].start
    off_y = (rows - (top + bottom) / 2)[:, None] / ((bottom - top) / 2)
    off_x = (columns - (left + right) / 2) / ((right - left) / 2)
    inside, off_centre = (abs(off_y) <= 1) & (abs(off_x) <= 1), off_x**2 + 0.8 * off_y**2
    share = _fit_colours(small, inside, off_centre)
    mask = np.zeros((height, width), dtype=bool)
    mask[view] = _enlarged(share.astype(np.float32), _size(mask[view])) > 0.5
    mask &= draw_polygon((height, width), box_corners(first, second))
    if not mask.any():
        raise ValueError("no object was found in this box; draw it closer around the object")
    return np.asarray(ndimage.binary_fill_holes(_without_specks(mask)))


def _fit_colours(
    small: UInt8[np.ndarray, "h w 3"], inside: Bool[np.ndarray, "h w"], off_centre: Float[np.ndarray, "h w"]
) -> Float[np.ndarray, "h w"]:
    """The probability of each pixel to be the object's."""
    lab = _lab(small)
    grid = np.stack((lab[..., 0] / 100, (lab[..., 1] + 60) / 120, (lab[..., 2] + 60) / 120), -1)
    place = np.clip(grid * BINS, 0, BINS - 1).astype(np.int64)
    colour = place.reshape(-1, 3) @ np.array([BINS**2, BINS, 1])
    images = torch.from_numpy(lab / 100).permute(2, 0, 1)[None].float()
    weights = pairwise_weights(images, RADIUS, COLOUR_SIGMA)
    share = inside * np.clip(1.2 - off_centre, 0.02, 1)
    for _ in range(ROUNDS):
        ratio = np.log(_histogram(colour, share) / _histogram(colour, 1 - share))[colour].reshape(inside.shape)
        evidence = COLOUR_WEIGHT * ratio + CENTRE_WEIGHT * (1 - 1.6 * off_centre)
        logits = torch.from_numpy(np.where(inside, evidence, -50.0)).float()[None, None]
        mean = torch.sigmoid(logits)
        for _ in range(UPDATES):
            message = pairwise_messages(torch.cat((mean, 1 - mean), 1), weights)
            mean = torch.sigmoid(logits + PAIRWISE_WEIGHT * (message[:, :1] - message[:, 1:]))
        share = mean[0, 0].double().numpy()
    return np.asarray(share)


def _histogram(colour: Int[np.ndarray, " n"], share: Float[np.ndarray, "h w"]) -> Float[np.ndarray, " bins"]:
    counts = np.bincount(colour, share.ravel(), minlength=BINS**3).reshape(BINS, BINS, BINS)
    smooth = ndimage.gaussian_filter(counts, 1.0, mode="nearest").ravel()
    return np.asarray(smooth / max(smooth.sum(), 1e-9) + 1e-5)


def _walk(
    pixels: UInt8[np.ndarray, "h w 3"],
    mask: Bool[np.ndarray, "h w"],
    first: Bool[np.ndarray, "h w"],
    second: Bool[np.ndarray, "h w"],
    otherwise: Bool[np.ndarray, "h w"],
) -> Bool[np.ndarray, "h w"]:
    """Pixels from which a random walker, slow across edges of the image, comes to `first` before `second`.

    `otherwise` has the answer where no walk leads to either.
    """
    from skimage.segmentation import random_walker

    box = _box(mask)
    small = _reduced(pixels[box], SOLVED_SIDE)
    size = _size(small[..., 0])
    shares = [_shrunk(part[box], size) for part in (mask, first, second)]
    seeds = np.select((shares[1] > 0.5 * shares[0], shares[2] > 0.5 * shares[0]), (1, 2), 0)
    for number, share in ((1, shares[1]), (2, shares[2])):  # the smallest seed remains one
        if not (seeds == number).any():
            seeds[np.unravel_index(share.argmax(), size)] = number
    seeds[shares[0] == 0] = -1
    odds = np.full(size, 0.5)
    if (seeds == 0).any():
        odds = random_walker(
            _lab(small) / 100, seeds, BETA, tol=1e-3, return_full_prob=True, channel_axis=-1, prob_tol=0.1
        )[0]
    unknown = _enlarged((seeds <= 0).astype(np.uint8), _size(mask[box])) > 0
    near = _enlarged(np.where(seeds == 1, 1, np.where(seeds == 2, 0, odds)).astype(np.float32), _size(mask[box]))
    result = otherwise.copy()
    result[box] = np.where(unknown & (near != 0.5), near > 0.5, otherwise[box])
    return np.asarray((result | first) & ~second & mask)


def _side_of(mask: Bool[np.ndarray, "h w"], line: Sequence[Point]) -> Bool[np.ndarray, "h w"]:
    """The part of a mask on one side of a line.

    A connected component that the line divides by itself, or not at all, is whole on the side where it meets the line.
    The line goes on straight through the others.
    """
    (x, y), (to_x, to_y) = line[0], line[-1]
    length = math.hypot(to_x - x, to_y - y)
    if length < 1:
        raise ValueError("the line is too short; draw it from one border of the segment to another")
    far = 4.0 * sum(mask.shape)
    along_x, along_y = far * (to_x - x) / length, far * (to_y - y) / length
    start, end = (x - along_x, y - along_y), (to_x + along_x, to_y + along_y)
    beyond = [(end[0] - along_y, end[1] + along_x), (start[0] - along_y, start[1] + along_x)]
    half = draw_polygon(_size(mask), [start, *line, end, *beyond])
    near = draw_stroke(_size(mask), line, 3.0)
    parts, count = ndimage.label(mask & ~draw_stroke(_size(mask), line, 0.75))
    side = half & mask
    for number in range(1, count + 1):
        part = parts == number
        touching = half[part & near]
        share = touching.mean() if len(touching) else 0.0
        if share < 0.1 or share > 0.9:
            side[part] = share > 0.5
    return np.asarray(side)


def _without_specks(mask: Bool[np.ndarray, "h w"]) -> Bool[np.ndarray, "h w"]:
    """The components that are not much smaller than the largest."""
    labels, _ = ndimage.label(mask)
    area = np.bincount(labels.ravel())
    area[0] = 0
    return np.asarray((area >= 0.15 * area.max())[labels] & mask)


def _lab(pixels: UInt8[np.ndarray, "h w 3"]) -> Float[np.ndarray, "h w 3"]:
    from skimage.color import rgb2lab

    return np.asarray(rgb2lab(pixels))


def _size(mask: np.ndarray) -> Size:
    return mask.shape[0], mask.shape[1]


def _box(mask: Bool[np.ndarray, "h w"]) -> tuple[slice, slice]:
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    return slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)


def _reduced(pixels: UInt8[np.ndarray, "h w 3"], side: int) -> UInt8[np.ndarray, "height width 3"]:
    """An image whose longer side is at most `side`."""
    height, width = pixels.shape[:2]
    scale = min(1.0, side / max(height, width))
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return np.asarray(Image.fromarray(np.ascontiguousarray(pixels)).resize(size, Image.Resampling.BOX))


def _shrunk(mask: Bool[np.ndarray, "h w"], size: Size) -> Float[np.ndarray, "height width"]:
    """The share of a mask in each pixel of a smaller image."""
    image = Image.fromarray(mask.astype(np.float32))
    return np.asarray(image.resize((size[1], size[0]), Image.Resampling.BOX), dtype=np.float64)


def _enlarged(values: np.ndarray, size: Size) -> np.ndarray:
    """Values at the size of the image: floats interpolated, integers by the nearest."""
    how = Image.Resampling.BILINEAR if values.dtype == np.float32 else Image.Resampling.NEAREST
    image = Image.fromarray(values if values.dtype != np.int64 else values.astype(np.int32))
    return np.asarray(image.resize((size[1], size[0]), how))
