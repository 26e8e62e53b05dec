"""A baseline that is scored on the same images as a model: a function from images to label maps."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from jaxtyping import Float, Int64
from torch import Tensor

Segment = Callable[[Float[Tensor, "b 3 h w"]], Int64[Tensor, "b h w"]]


class Method(NamedTuple):
    """A baseline: a function from images to label maps."""

    name: str
    title: str
    segment: Segment
