"""Baselines on the frozen features that a model begins with, none of which learns more than a few centres.

k-means in each image and over the data set, Ward's method on the grid, and TokenCut.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from scipy.linalg import eigh
from scipy.sparse import csr_array
from torch import Tensor, nn

from cocanet.data.colour_clusters import kmeans, nearest
from cocanet.evaluate.methods import Method, Segment
from cocanet.extras import extra
from cocanet.functional.resizing import enlarge, shrink

ALIKE, UNLIKE = 0.2, 1e-5
"""TokenCut: cosine from which two cells are alike, and the weight of an edge between others."""
SAMPLED = 2**14
"""Cells at most that the centres of a data set are found by."""

Cells = Float[Tensor, "b h w c"]


def feature_methods(pretrained: nn.Module, slots: int, sample: Float[Tensor, "b 3 h w"]) -> list[Method]:
    """All of them; `sample` holds the images by which k-means over the data set finds its centres."""
    features = Remembered(pretrained)
    centres = kmeans(_sampled(pretrained(sample)), slots)
    return [
        Method(f"features{slots}", f"k-means of features, {slots}", on_grid(features, lambda x: clusters(x, slots))),
        Method(
            f"dataset{slots}",
            f"k-means of features over the data set, {slots}",
            on_grid(features, lambda x: nearest(x.flatten(1, 2), centres.expand(len(x), -1, -1)).view(x.shape[:3])),
        ),
        *(
            [Method(f"ward{slots}", f"Ward on features, {slots}", on_grid(features, lambda x: ward(x, slots)))]
            if find_spec("sklearn")
            else []
        ),
        Method("tokencut", "TokenCut on features", on_grid(features, token_cut)),
    ]


class Remembered:
    """Features of the last batch, for several methods one after the other."""

    def __init__(self, pretrained: nn.Module) -> None:
        self.pretrained = pretrained
        self.images: Tensor | None = None
        self.features: Tensor | None = None

    def __call__(self, images: Float[Tensor, "b 3 h w"]) -> Cells:
        if self.images is not images or self.features is None:
            self.images, self.features = images, self.pretrained(images)
        return self.features


def on_grid(features: Callable[[Tensor], Tensor], label: Callable[[Cells], Int64[Tensor, "b rows columns"]]) -> Segment:
    """Labels of cells as labels of pixels: masks are enlarged as a model's are."""

    def segment(images: Float[Tensor, "b 3 height width"]) -> Int64[Tensor, "b height width"]:
        labels = label(features(images))
        masks = F.one_hot(labels, int(labels.max()) + 1).movedim(-1, 1).float()
        return enlarge(masks, (images.shape[2], images.shape[3])).argmax(1)

    return segment


def clusters(features: Cells, count: int) -> Int64[Tensor, "b h w"]:
    """k-means in each image."""
    points = features.flatten(1, 2)
    return nearest(points, kmeans(points, count)).view(features.shape[:3])


def ward(features: Cells, count: int) -> Int64[Tensor, "b h w"]:
    """Ward's method: of neighbouring clusters, those are merged that raise the variance least."""
    cluster = extra("sklearn.cluster", "baselines", "features are clustered by Ward's method")
    rows, columns = features.shape[1:3]
    edges = grid_edges(rows, columns)
    found = [
        cluster.AgglomerativeClustering(count, connectivity=edges).fit_predict(each.flatten(0, 1).cpu().numpy())
        for each in features
    ]
    return torch.from_numpy(np.stack(found)).long().view(-1, rows, columns).to(features.device)


def grid_edges(rows: int, columns: int) -> csr_array:
    """Which cells of a grid touch: four neighbours."""
    numbers = np.arange(rows * columns).reshape(rows, columns)
    pairs = np.concatenate(
        [
            np.stack((one.ravel(), other.ravel()))
            for one, other in ((numbers[1:], numbers[:-1]), (numbers[:, 1:], numbers[:, :-1]))
        ],
        1,
    )
    both = np.concatenate((pairs, pairs[::-1]), 1)
    return csr_array((np.ones(both.shape[1]), (both[0], both[1])), shape=(rows * columns,) * 2)


def token_cut(features: Cells) -> Int64[Tensor, "b rows columns"]:
    """A normalised cut in two of a graph of cells (Wang et al., 2022), on cells of 2×2: 1 for the object.

    Cells are joined by the cosine of their features. The second smallest eigenvector is cut at its mean; the object is
    the side of its largest absolute value.
    """
    rows, columns = features.shape[1] // 2, features.shape[2] // 2
    cells = F.normalize(shrink(features.movedim(-1, 1), (rows, columns)).flatten(2), dim=1)
    cosines = (cells.mT @ cells).double().cpu().numpy()
    return (
        torch.from_numpy(np.stack([_cut(each) for each in cosines])).long().view(-1, rows, columns).to(features.device)
    )


def _cut(cosines: np.ndarray) -> np.ndarray:
    weights = np.where(cosines > ALIKE, 1.0, UNLIKE)
    degrees = np.diag(weights.sum(1))
    _, vectors = eigh(degrees - weights, degrees, subset_by_index=[1, 1])
    vector = vectors[:, 0]
    side = vector > vector.mean()
    return np.asarray(side if side[np.abs(vector).argmax()] else ~side)


def _sampled(features: Cells) -> Float[Tensor, "1 n c"]:
    """Evenly spaced cells of all images."""
    cells = features.flatten(0, 2)
    return cells[:: max(1, len(cells) // SAMPLED)].unsqueeze(0)
