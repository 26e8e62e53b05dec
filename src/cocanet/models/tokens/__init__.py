"""SLATE's decoder (Singh et al., 2022): a discrete autoencoder gives the words, a transformer tells the picture."""

from cocanet.models.tokens.autoencoder import DiscreteAutoencoder
from cocanet.models.tokens.decoder import TokenDecoder
from cocanet.models.tokens.transformer import Transformer

__all__ = ["DiscreteAutoencoder", "TokenDecoder", "Transformer"]
