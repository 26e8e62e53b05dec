"""SLATE's decoder (Singh et al., 2022): a discrete autoencoder of tokens, and a transformer that predicts them."""

from cocanet.models.tokens.autoencoder import DiscreteAutoencoder
from cocanet.models.tokens.decoder import TokenDecoder
from cocanet.models.tokens.transformer import Transformer

__all__ = ["DiscreteAutoencoder", "TokenDecoder", "Transformer"]
