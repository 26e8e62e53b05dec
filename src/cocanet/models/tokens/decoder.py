"""Slots to pictures by tokens: what is learned, the picture told by them, and a picture from slots alone."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from cocanet.config.tokens import TokenDecoderConfig
from cocanet.functional.resizing import enlarge
from cocanet.layers.linear import linear
from cocanet.layers.precision import full_precision
from cocanet.models.decoder import Painting
from cocanet.models.tokens.autoencoder import DiscreteAutoencoder, gumbel_noise, soft_choice
from cocanet.models.tokens.transformer import Memory, Told, Transformer


class TokenDecoder(nn.Module):
    """The autoencoder learns to paint images from tokens; the transformer learns to tell their tokens from the slots.

    No gradient goes from one to the other. A token's picture is of all slots together, so that every slot has the
    same one; the decoder's masks are where each token looked.
    """

    temperature: Tensor

    def __init__(self, config: TokenDecoderConfig, image_size: tuple[int, int], slot_dim: int) -> None:
        super().__init__()
        self.config, self.image_size = config, image_size
        self.grid = config.grid(image_size)
        count = self.grid[0] * self.grid[1]
        self.autoencoder = DiscreteAutoencoder(config)
        self.words = nn.Embedding(config.vocabulary + 1, config.dim)
        nn.init.xavier_uniform_(self.words.weight)
        self.places = nn.Parameter(nn.init.trunc_normal_(torch.empty(1 + count, config.dim)))
        self.dropout = nn.Dropout(config.dropout)
        self.transformer = Transformer(config, slot_dim)
        self.head = linear(config.dim, config.vocabulary, bias=False)
        self.register_buffer("temperature", torch.tensor(config.temperature[0]))

    def forward(
        self, slots: Float[Tensor, "b k d"], in_use: Bool[Tensor, "b k"], images: Float[Tensor, "b 3 h w"]
    ) -> Painting:
        """In training the autoencoder's own picture, with the loss; in evaluation the picture whose every token was
        told from the slots and the true tokens before it."""
        logits = self.autoencoder.logits(images)
        if self.training:
            with full_precision(logits):
                soft = soft_choice(logits.float(), gumbel_noise(logits.float()), self.temperature)
                words = (logits.detach().float() + gumbel_noise(logits.float())).argmax(1)
            mixture = self.autoencoder.paint(soft).float()
            told = self.tell(words, slots, in_use)
            loss = token_loss(mixture, images, self.head(told.features).float(), words)
        else:
            told = self.tell(logits.argmax(1), slots, in_use)
            likeliest = self.head(told.features).argmax(-1).unflatten(1, self.grid)
            mixture, loss = self.autoencoder.paint_words(likeliest).float(), None
        masks = enlarge(told.attention.float().unflatten(-1, self.grid), self.image_size)
        return Painting(mixture.unsqueeze(1).expand(-1, slots.shape[1], -1, -1, -1), masks, mixture, loss)

    def tell(self, words: Int[Tensor, "b h w"], slots: Float[Tensor, "b k d"], in_use: Bool[Tensor, "b k"]) -> Told:
        """Features from which each token is predicted: of the slots and the tokens before it."""
        begun = F.pad(words.flatten(1)[:, :-1] + 1, (1, 0))
        out: Told = self.transformer(self.embed(begun, 0), self.transformer.remember(slots), in_use)
        return out

    @torch.no_grad()
    def generate(
        self, slots: Float[Tensor, "b k d"], in_use: Bool[Tensor, "b k"] | None = None
    ) -> Float[Tensor, "b 3 h w"]:
        """A picture from slots alone: the likeliest token, one after the other."""
        in_use = torch.ones(slots.shape[:2], dtype=torch.bool, device=slots.device) if in_use is None else in_use
        memory, past = self.transformer.remember(slots), None
        word = torch.zeros(len(slots), 1, dtype=torch.long, device=slots.device)
        told = []
        for place in range(self.grid[0] * self.grid[1]):
            word, past = self._next(word, place, memory, in_use, past)
            told.append(word - 1)
        painted = self.autoencoder.paint_words(torch.cat(told, 1).unflatten(1, self.grid))
        return painted.float().clamp(0, 1)

    def _next(
        self,
        word: Int[Tensor, "b 1"],
        place: int,
        memory: list[Memory],
        in_use: Bool[Tensor, "b k"],
        past: tuple[Memory, ...] | None,
    ) -> tuple[Int[Tensor, "b 1"], tuple[Memory, ...]]:
        told: Told = self.transformer(self.embed(word, place), memory, in_use, past)
        return self.head(told.features).argmax(-1) + 1, told.past

    def embed(self, words: Int[Tensor, "b n"], place: int) -> Float[Tensor, "b n d"]:
        """Words, of which 0 is the beginning, at places from `place` on."""
        out: Tensor = self.dropout(self.words(words) + self.places[place : place + words.shape[1]])
        return out

    def anneal(self, done: float) -> None:
        """Cool the soft choice along half a cosine, and keep it cold."""
        first, last = self.config.temperature
        share = min(1.0, done / self.config.cooling_share) if self.config.cooling_share else 1.0
        self.temperature.fill_(last + (first - last) * 0.5 * (1 + math.cos(math.pi * share)))


def token_loss(
    painted: Float[Tensor, "b 3 h w"],
    images: Float[Tensor, "b 3 h w"],
    logits: Float[Tensor, "b n v"],
    words: Int[Tensor, "b rows columns"],
) -> Float[Tensor, ""]:
    """The autoencoder's squared error and the transformer's cross-entropy, each summed over an image."""
    error = (painted - images).square().sum()
    surprise = F.cross_entropy(logits.flatten(0, 1), words.flatten(), reduction="sum")
    return (error + surprise) / len(images)
