"""A model and what training minimises, as one module."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from cocanet.models.model import ObjectModel


class Objective(nn.Module):
    """The loss of a batch of images; wrappers for many devices see a module that returns a scalar."""

    def __init__(self, model: ObjectModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, ""]:
        return self.model.loss(self.model(images), images)
