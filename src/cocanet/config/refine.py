"""Refinement of predicted masks: one setting for all images."""

from __future__ import annotations

from dataclasses import dataclass

from cocanet.config.checks import not_negative, positive


@dataclass(frozen=True)
class RefineConfig:
    """Mean-field refinement of masks, followed by merging of connected components.

    The paper refines nothing, and refinement is off unless it is requested. No weight depends on it.
    """

    rounds: int = 8
    """Mean-field updates before merging, and again after it."""
    pairwise_weight: float = 16.0
    """Weight of the messages from neighbouring pixels."""
    colour_sigma: float = 0.5
    """Difference in colour at which a neighbour's message falls to e^(-1/2)."""
    radius: int = 2
    """Largest distance to a neighbour, in rows and columns."""
    small_segment_prior: float = 1.0
    """Weight of the prior that the smaller of two segments owns their border."""
    min_area: float = 0.003
    """Share of the image below which a segment is noise."""
    unary_weight: float = 1.0
    """Weight of the likelihood of a pixel's colour and position under each slot."""
    noise: float = 0.003
    """Added to each slot's variance of colour."""
    brightness_weight: float = 0.5
    """Weight of brightness in colours; shading changes brightness more than hue."""
    merge: bool = True
    """Whether connected components of the masks are merged into new segments."""

    def __post_init__(self) -> None:
        not_negative(
            rounds=self.rounds,
            pairwise_weight=self.pairwise_weight,
            small_segment_prior=self.small_segment_prior,
            min_area=self.min_area,
            unary_weight=self.unary_weight,
            brightness_weight=self.brightness_weight,
        )
        positive(colour_sigma=self.colour_sigma, radius=self.radius, noise=self.noise)
