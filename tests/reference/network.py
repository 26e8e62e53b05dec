"""COCA-Net's forward pass for one image, in float64 NumPy: from a configuration and weights by name, without torch."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from scipy.special import erf, softmax

from cocanet.config import CocaNetConfig, DecoderConfig, LevelConfig
from tests.reference import equations
from tests.reference.equations import Node
from tests.reference.layers import Weights, conv, enlarge

GROUPS, NORM_EPS, SLOPE = 4, 1e-3, 0.01


@dataclass
class Result:
    """What the fast network returns, and the choices that led to it."""

    anchors: list[np.ndarray] = field(default_factory=list)
    """Of each level, by window."""
    masks: list[np.ndarray] = field(default_factory=list)
    """Of each level, by window."""
    slots: np.ndarray = field(default_factory=lambda: np.zeros(0))
    encoder_masks: np.ndarray = field(default_factory=lambda: np.zeros(0))
    slot_images: np.ndarray = field(default_factory=lambda: np.zeros(0))
    decoder_masks: np.ndarray = field(default_factory=lambda: np.zeros(0))
    reconstruction: np.ndarray = field(default_factory=lambda: np.zeros(0))


def forward(config: CocaNetConfig, w: Weights, image: np.ndarray) -> Result:
    """`image` has channels, rows and columns; a configuration with dynamic slots means evaluation."""
    out = Result()
    grid = backbone(config, w, image)[:, :, None]
    rows, columns = config.image_size
    nodes = np.array([[[Node(1.0, 1.0, 1 / 6, r, c)] for c in range(columns)] for r in range(rows)])
    inputs = [grid]
    for number in range(len(config.levels)):
        into_top = nodes
        features, nodes = run_level(config, w, number, inputs, nodes, out)
        inputs.append(features)
    slots = norm(features[0, 0], config.norm)
    out.slots = slots + mlp(slots, w, "hierarchy.mlp")
    out.encoder_masks = dendrogram(config, out.masks)
    decode(config, w, out, into_top)
    return out


def linear(x: np.ndarray, w: Weights, name: str) -> np.ndarray:
    return x @ w[f"{name}.weight"].T + w.get(f"{name}.bias", 0.0)


def mlp(x: np.ndarray, w: Weights, name: str) -> np.ndarray:
    hidden = linear(x, w, f"{name}.inner")
    return linear(hidden * 0.5 * (1 + erf(hidden / math.sqrt(2))), w, f"{name}.outer")


def norm(x: np.ndarray, scope: str) -> np.ndarray:
    """Groups of features, of each node by itself or of all nodes of the image together."""
    grouped = x.reshape(-1, GROUPS, x.shape[-1] // GROUPS)
    axes = (2,) if scope == "node" else (0, 2)
    mean, variance = grouped.mean(axes, keepdims=True), grouped.var(axes, keepdims=True)
    return ((grouped - mean) / np.sqrt(variance + NORM_EPS)).reshape(x.shape)


def leaky_relu(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x, SLOPE * x)


def backbone(config: CocaNetConfig, w: Weights, image: np.ndarray) -> np.ndarray:
    """Features of every pixel, rows and columns first."""
    kernel = w["backbone.conv.weight"]
    reach = kernel.shape[-1] // 2
    seen = 2 * image**config.backbone.input_gamma - 1
    padded = np.pad(seen, ((0, 0), (reach, reach), (reach, reach)), mode="edge")
    height, width = image.shape[1:]
    x = np.zeros((height, width, len(kernel)))
    for row, column in np.ndindex(height, width):
        patch = padded[:, row : row + 2 * reach + 1, column : column + 2 * reach + 1]
        x[row, column] = (kernel * patch).sum((1, 2, 3))
    appearance = linear(leaky_relu(norm(x, config.norm)), w, "backbone.mix")
    for row, column in np.ndindex(height, width):
        appearance[row, column] += linear(edges(row, column, height, width), w, "backbone.position.embed")
    x = norm(appearance, config.norm)
    return linear(x, w, "backbone.direct") + mlp(x, w, "backbone.mlp")


def edges(row: int, column: int, height: int, width: int) -> np.ndarray:
    """Distances to the top, bottom, left and right edge, as shares of the image."""
    y, x = row / (height - 1), column / (width - 1)
    return np.array([y, 1 - y, x, 1 - x])


def run_level(
    config: CocaNetConfig, w: Weights, number: int, inputs: list[np.ndarray], nodes: np.ndarray, out: Result
) -> tuple[np.ndarray, np.ndarray]:
    """Features and geometry of a level's clusters on their grid, `[row, column, cluster]`."""
    level, name, grid = config.levels[number], f"hierarchy.levels.{number}", inputs[-1]
    for block in range(level.depth):
        grid = refine(config, w, f"{name}.refine.{block}", level, grid)
    x = norm(grid, config.norm)
    queries = norm(linear(x, w, f"{name}.coca.query"), config.norm)
    values, mixed = linear(x, w, f"{name}.coca.value"), grid + mlp(x, w, f"{name}.coca.mlp")
    last = number == len(config.levels) - 1
    dynamic = config.dynamic if last else None
    clusters, threshold = (dynamic.max_slots, dynamic.scope_threshold) if dynamic else (level.clusters, 0.0)
    above_features, above_nodes, anchors, masks = [], [], [], []
    for window in windows(grid.shape[:2], level.window):
        flat = [(*cell, node) for cell in window for node in range(grid.shape[2])]
        inside = [nodes[place] for place in flat]
        affinity = equations.affinity(
            equations.distances(np.array([queries[place] for place in flat]), level.temperature, len(window))
        )
        candidates = strided(level, grid.shape[2])
        scores = np.zeros(len(flat))
        for i in candidates:
            scores[i] = equations.compactness(affinity[i], inside, inside[i].row, inside[i].column)
        chosen, found = equations.cluster(scores, affinity, clusters - 1, threshold, candidates)
        own, carried = (np.array([part[place] for place in flat]) for part in (mixed, values))
        above_features.append(
            [
                equations.pool_features(mask, own)
                + linear(equations.pool_features(mask, carried), w, f"{name}.coca.out")
                for mask in found
            ]
        )
        above_nodes.append([equations.pool_geometry(mask, inside, config.inertia) for mask in found])
        anchors.append(chosen)
        masks.append(found)
    out.anchors.append(np.array(anchors))
    out.masks.append(np.array(masks))
    features = np.array(above_features)
    if number:
        below = config.levels[number - 1].window
        mean = norm(equations.skip_means(inputs[-2], out.masks[-2], out.masks[-1], below, level.window), config.norm)
        features = features + norm(mean + mlp(mean, w, f"{name}.skip"), config.norm)
    rows, columns = (side // part for side, part in zip(grid.shape[:2], level.window, strict=True))
    return features.reshape(rows, columns, *features.shape[1:]), np.array(above_nodes).reshape(rows, columns, -1)


def windows(grid: tuple[int, ...], window: tuple[int, int]) -> list[list[tuple[int, int]]]:
    """Cells of each window, row by row."""
    height, width = window
    return [
        [(top + row, left + column) for row in range(height) for column in range(width)]
        for top in range(0, grid[0], height)
        for left in range(0, grid[1], width)
    ]


def strided(level: LevelConfig, per_cell: int) -> list[int]:
    """Nodes of every n-th cell, from the middle of a step on."""
    (height, width), stride = level.window, level.candidate_stride
    return [
        (row * width + column) * per_cell + node
        for row in range(height)
        for column in range(width)
        for node in range(per_cell)
        if row % stride == column % stride == (stride - 1) // 2
    ]


def refine(config: CocaNetConfig, w: Weights, name: str, level: LevelConfig, grid: np.ndarray) -> np.ndarray:
    """X + attention + MLP; each query and head by itself."""
    x = norm(grid, config.norm)
    queries, keys = (norm(linear(x, w, f"{name}.{part}"), config.norm) for part in ("query", "key"))
    values, width = linear(x, w, f"{name}.value"), config.dim // config.heads
    attended = np.zeros_like(grid)
    for place in np.ndindex(*grid.shape[:3]):
        seen = [other for other in np.ndindex(*grid.shape[:3]) if sees(level, place, other)]
        for head in range(config.heads):
            own = slice(head * width, (head + 1) * width)
            share = softmax([queries[place][own] @ keys[other][own] / math.sqrt(width) for other in seen])
            attended[place][own] = sum(s * values[other][own] for s, other in zip(share, seen, strict=True))
    return grid + linear(attended, w, f"{name}.out") + mlp(x, w, f"{name}.mlp")


def sees(level: LevelConfig, place: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether a node attends to another, by the row and column of their cells."""
    if level.attention == "global":
        return True
    if level.attention == "neighbourhood":
        assert level.kernel is not None
        return max(abs(place[axis] - other[axis]) for axis in (0, 1)) <= level.kernel // 2
    return all(place[axis] // level.window[axis] == other[axis] // level.window[axis] for axis in (0, 1))


def dendrogram(config: CocaNetConfig, masks: list[np.ndarray]) -> np.ndarray:
    """Each pixel's share in each slot, followed from level to level (Eq. 13)."""
    height, width = config.image_size
    image = np.zeros((masks[-1].shape[1], height, width))
    for row, column in np.ndindex(height, width):
        share, cell, columns = np.ones(1), (row, column), width
        for level, found in zip(config.levels, masks, strict=True):
            window = cell[0] // level.window[0], cell[1] // level.window[1]
            columns //= level.window[1]
            inside = (cell[0] % level.window[0]) * level.window[1] + cell[1] % level.window[1]
            part = found[window[0] * columns + window[1]][:, inside * len(share) : (inside + 1) * len(share)]
            share, cell = part @ share, window
        image[:, row, column] = share
    return image


def decode(config: CocaNetConfig, w: Weights, out: Result, into_top: np.ndarray) -> None:
    decoder = config.decoder
    assert isinstance(decoder, DecoderConfig)
    layers = [
        image_layers(decoder, w, slot)
        if decoder.frame == "image"
        else own_layers(decoder, w, slot, mask, centre(number, out, into_top))
        for number, (slot, mask) in enumerate(zip(out.slots, out.encoder_masks, strict=True))
    ]
    decoded = np.array(layers)
    out.slot_images = (decoded[:, :3] + 1) / 2
    out.decoder_masks = softmax(decoded[:, 3], 0)
    out.reconstruction = (out.slot_images * out.decoder_masks[:, None]).sum(0)


def names(decoder: DecoderConfig) -> list[str]:
    return ["decoder.first.conv", *(f"decoder.rest.{number}" for number in range(len(decoder.layers) - 1))]


def image_layers(decoder: DecoderConfig, w: Weights, slot: np.ndarray) -> np.ndarray:
    """Colours and mask logit of a slot that is laid out on a grid, with the position of each cell."""
    x = np.zeros((len(slot), *decoder.broadcast))
    for row, column in np.ndindex(*decoder.broadcast):
        x[:, row, column] = slot + linear(edges(row, column, *decoder.broadcast), w, "decoder.position.embed")
    for number, (name, layer) in enumerate(zip(names(decoder), decoder.layers, strict=True)):
        x = enlarge(x if number == 0 else np.maximum(x, 0), w, name, layer.stride)
    return x


def own_layers(
    decoder: DecoderConfig, w: Weights, slot: np.ndarray, mask: np.ndarray, at: tuple[int, int]
) -> np.ndarray:
    """The same of a pointwise decoder in the slot's own frame: the slot knows its mask's shape about its centre."""
    assert all(layer.kernel == layer.stride == 1 for layer in decoder.layers)
    size, octaves = mask.shape, decoder.octaves
    near = mask * gaussian(at, size)
    near = near / near.sum()
    spectrum = sum(
        near[place] * np.outer(*(waves(place[axis] - at[axis], size[axis], octaves) for axis in (0, 1))).ravel()
        for place in np.ndindex(*size)
    )
    slot = slot + mlp(spectrum, w, "decoder.frame.mlp")
    out = np.zeros((4, *size))
    for place in np.ndindex(*size):
        offset = np.outer(*(waves(place[axis] - at[axis], size[axis], octaves) for axis in (0, 1))).ravel()
        x = slot + linear(offset, w, "decoder.position.embed")
        for number, name in enumerate(names(decoder)):
            x = conv((x if number == 0 else np.maximum(x, 0))[:, None, None], w, name)[:, 0, 0]
        out[:, *place] = x
    return out


def waves(offset: int, side: int, octaves: int) -> np.ndarray:
    """1, sines and cosines of an offset, from a quarter of a wave across the side on."""
    phases = [math.pi * 2.0**octave * offset / (side - 1) for octave in range(-1, octaves)]
    return np.array([1.0, *map(math.sin, phases), *map(math.cos, phases)])


def gaussian(at: tuple[float, float], size: tuple[int, ...]) -> np.ndarray:
    """A window whose deviation is a fifth of each side."""
    out = np.zeros(size)
    for place in np.ndindex(*size):
        out[place] = math.exp(-0.5 * sum(((place[i] - at[i]) / (0.2 * size[i])) ** 2 for i in (0, 1)))
    return out


def centre(slot: int, out: Result, into_top: np.ndarray) -> tuple[int, int]:
    """Three mean shifts from the slot's anchor; the last slot's start is the node with most of its mask."""
    flat, top, mask = into_top.ravel(), out.masks[-1][0], out.encoder_masks[slot]
    start = (
        int(out.anchors[-1][0][slot])
        if slot < len(top) - 1
        else int(np.argmax([m * node.area for m, node in zip(top[-1], flat, strict=True)]))
    )
    at = flat[start].row, flat[start].column
    for _ in range(3):
        near = mask * gaussian(at, mask.shape)
        at = tuple(sum(near[p] * p[axis] for p in np.ndindex(*mask.shape)) / near.sum() for axis in (0, 1))
    return tuple(min(max(round(x), 0), side - 1) for x, side in zip(at, mask.shape, strict=True))
