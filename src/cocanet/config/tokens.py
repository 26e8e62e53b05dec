"""Hyper-parameters of SLATE's decoder: an image is a grid of tokens, predicted one after the other from the slots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cocanet.config.checks import by, positive

TOKEN_SIDE = 4
"""Pixels a side of the square that a token stands for."""


@dataclass(frozen=True)
class TokenDecoderConfig:
    """A discrete autoencoder and a causal transformer; the sizes are those of BO-QSA on photographs unless given."""

    vocabulary: int
    """Number of different tokens; each stands for a square of 4×4 pixels."""
    dim: int
    """Features of a token in the transformer."""
    blocks: int = 4
    heads: int = 4
    dropout: float = 0.1
    channels: int = 64
    """Channels of the autoencoder's convolutions."""
    kernel: int = 3
    """Side of those of its convolutions in which BO-QSA (3) and SLATE (1) differ."""
    temperature: tuple[float, float] = (1.0, 0.1)
    """Of the tokens' soft choice, at the beginning and at the end of cooling."""
    cooling_share: float = 0.12
    """Share of the run in which it cools, along half a cosine."""
    kind: Literal["tokens"] = "tokens"

    def __post_init__(self) -> None:
        positive(
            vocabulary=self.vocabulary,
            dim=self.dim,
            blocks=self.blocks,
            heads=self.heads,
            channels=self.channels,
            kernel=self.kernel,
            first_temperature=self.temperature[0],
            last_temperature=self.temperature[1],
        )
        if self.vocabulary < 2:
            raise ValueError(f"a vocabulary has at least 2 tokens; got {self.vocabulary}")
        if self.dim % self.heads:
            raise ValueError(f"{self.dim} features do not divide among {self.heads} attention heads")
        if self.kernel % 2 == 0:
            raise ValueError(f"the autoencoder's kernel must be odd to keep the resolution; got {self.kernel}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must be 0 or more and below 1; got {self.dropout}")
        if not 0 <= self.cooling_share <= 1:
            raise ValueError(f"cooling_share must lie between 0 and 1; got {self.cooling_share}")

    @property
    def about(self) -> str:
        """The decoder in words, for reports."""
        return "autoregressive token decoder; its masks are attention of the tokens to the slots"

    def grid(self, image_size: tuple[int, int]) -> tuple[int, int]:
        """Rows and columns of tokens of an image."""
        height, width = image_size
        if height % TOKEN_SIDE or width % TOKEN_SIDE:
            raise ValueError(
                f"a token stands for {TOKEN_SIDE}×{TOKEN_SIDE} pixels, which do not divide {by(image_size)} images"
            )
        return height // TOKEN_SIDE, width // TOKEN_SIDE
