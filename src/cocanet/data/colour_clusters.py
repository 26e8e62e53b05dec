"""k-means of the colours of images: a baseline, and a measure of how many segments images need."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from cocanet.data.views import Images

CLUSTERED_SIDE = 64
"""k-means runs on at most this many pixels a side; every pixel then takes the nearest colour."""
CANDIDATES, MAX_ROUNDS = 32, 50
LOOKED_AT, LOOKED_SIDE = 48, 32
"""Images, and pixels a side, by which the number of slots is chosen."""
UNEXPLAINED = 0.1
"""Share of an image's colour variance that its clusters may leave."""
QUANTILE = 0.9
FEWEST, MOST = 3, 12


def slots_needed(images: Images) -> int:
    """Clusters that leave little of the colour variance, in nine images of ten; the background is one of them."""
    chosen = np.unique(np.linspace(0, len(images) - 1, LOOKED_AT).round().astype(np.int64))
    pixels = torch.from_numpy(images.gather(chosen)[0]).permute(0, 3, 1, 2).float().div(255)
    colours = pixel_colours(shrink(pixels, LOOKED_SIDE))
    total = (colours - colours.mean(1, keepdim=True)).square().sum((1, 2))
    needed = torch.full((len(colours),), MOST)
    for count in reversed(range(FEWEST, MOST)):
        left = torch.cdist(colours, kmeans(colours, count)).square().amin(2).sum(1)
        needed[left <= UNEXPLAINED * total] = count
    return int(needed.float().quantile(QUANTILE).round())


def shrink(images: Float[Tensor, "b 3 h w"], side: int) -> Float[Tensor, "b 3 rows columns"]:
    """Images of at most `side` pixels a side."""
    height, width = images.shape[-2:]
    return F.interpolate(images, (min(height, side), min(width, side)), mode="area")


def kmeans(points: Float[Tensor, "b n d"], count: int) -> Float[Tensor, "b k d"]:
    """Cluster centres by Lloyd's algorithm; deterministic (see `first_centres`). An empty cluster keeps its centre."""
    centres = first_centres(points, count)
    for _ in range(MAX_ROUNDS):
        members = F.one_hot(nearest(points, centres), count).to(points.dtype)
        sizes = members.sum(1).unsqueeze(2)
        moved = torch.where(sizes > 0, members.transpose(1, 2) @ points / sizes.clamp(min=1), centres)
        if torch.equal(moved, centres):
            break
        centres = moved
    return centres


def first_centres(points: Float[Tensor, "b n d"], count: int) -> Float[Tensor, "b k d"]:
    """Initial centres: a greedy k-means++ without randomness.

    Candidates are evenly spaced from dark to bright. Each centre is the candidate that leaves the smallest error.
    """
    places = (2 * torch.arange(CANDIDATES, device=points.device) + 1) * points.shape[1] // (2 * CANDIDATES)
    from_dark = points.sum(2).argsort(dim=1, stable=True)[:, places]
    candidates = points.gather(1, from_dark.unsqueeze(2).expand(-1, -1, points.shape[2]))
    errors = torch.cdist(points, candidates).square()
    left, chosen, each = torch.full_like(errors[..., 0], torch.inf), [], torch.arange(len(points), device=points.device)
    for _ in range(count):
        best = torch.minimum(left.unsqueeze(2), errors).sum(1).argmin(1)
        left = torch.minimum(left, errors[each, :, best])
        chosen.append(candidates[each, best])
    return torch.stack(chosen, 1)


def pixel_colours(images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b n 3"]:
    return images.flatten(2).transpose(1, 2).contiguous()


def nearest(points: Float[Tensor, "b n d"], centres: Float[Tensor, "b k d"]) -> Int64[Tensor, "b n"]:
    """The nearest centre of each point; the first of equally near ones."""
    return (centres.square().sum(2).unsqueeze(1) - 2 * points @ centres.transpose(1, 2)).min(2).indices
