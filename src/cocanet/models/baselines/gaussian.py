"""Independent normal distributions, and a pixel's likelihood in a mixture of them."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor


class Gaussian(NamedTuple):
    """Normal distributions of the numbers in each slot, each on its own."""

    mean: Float[Tensor, "b k d"]
    deviation: Float[Tensor, "b k d"]

    def sample(self, noise: Float[Tensor, "#b k d"]) -> Float[Tensor, "b k d"]:
        """Move standard normal noise to where the distributions are."""
        return self.mean + self.deviation * noise

    def log_density(self, x: Float[Tensor, "b k d"]) -> Float[Tensor, "b k d"]:
        return -0.5 * ((x - self.mean) / self.deviation).square() - self.deviation.log() - 0.5 * math.log(2 * math.pi)


def divergence(posterior: Gaussian, prior: Gaussian, sample: Float[Tensor, "b k d"]) -> Float[Tensor, " b"]:
    """The KL divergence of an image's slots from their prior, estimated from one sample of the posterior."""
    return (posterior.log_density(sample) - prior.log_density(sample)).sum((1, 2))


def mixture_error(
    images: Float[Tensor, "b 3 h w"],
    slot_images: Float[Tensor, "b k 3 h w"],
    log_masks: Float[Tensor, "b k h w"],
    deviation: float,
) -> Float[Tensor, " b"]:
    """Negative log-likelihood of an image: each colour of a pixel comes from one slot, as likely as its mask says."""
    squared = (slot_images - images.unsqueeze(1)).square()
    terms = log_masks.unsqueeze(2) - squared / (2 * deviation**2)
    constant = math.log(deviation * math.sqrt(2 * math.pi)) * images[0].numel()
    return constant - torch.logsumexp(terms, 1).sum((1, 2, 3))
