"""SLATE's decoder: a discrete autoencoder, and a transformer that predicts its tokens from the slots."""

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
from cocanet.models.decoder import SlotDecoder
from cocanet.models.output import Decoded, Encoding
from cocanet.models.tokens.autoencoder import DiscreteAutoencoder, gumbel_noise, soft_choice
from cocanet.models.tokens.transformer import Memory, Prediction, Transformer


class TokenDecoder(SlotDecoder):
    """The autoencoder learns to reconstruct images from tokens; the transformer predicts their tokens from the slots.

    No gradient goes from one to the other. All slots share one image; a slot's decoder mask is the attention that
    the tokens pay to it.
    """

    temperature: Tensor

    def __init__(self, config: TokenDecoderConfig, image_size: tuple[int, int], slot_dim: int) -> None:
        super().__init__()
        self.config, self.image_size = config, image_size
        self.grid = config.grid(image_size)
        count = self.grid[0] * self.grid[1]
        self.autoencoder = DiscreteAutoencoder(config)
        self.tokens = nn.Embedding(config.vocabulary + 1, config.dim)
        nn.init.xavier_uniform_(self.tokens.weight)
        self.places = nn.Parameter(nn.init.trunc_normal_(torch.empty(1 + count, config.dim)))
        self.dropout = nn.Dropout(config.dropout)
        self.transformer = Transformer(config, slot_dim)
        self.head = linear(config.dim, config.vocabulary, bias=False)
        self.register_buffer("temperature", torch.tensor(config.temperature[0]))

    def forward(self, encoding: Encoding, images: Float[Tensor, "b 3 h w"]) -> Decoded:
        """In training the autoencoder's own reconstruction, with the loss. In evaluation the image of the predicted
        tokens, each predicted from the slots and the true tokens before it."""
        slots, in_use = encoding.slots, encoding.in_use
        logits = self.autoencoder.logits(images)
        if self.training:
            with full_precision(logits):
                soft = soft_choice(logits.float(), gumbel_noise(logits.float()), self.temperature)
                tokens = (logits.detach().float() + gumbel_noise(logits.float())).argmax(1)
            reconstruction = self.autoencoder.decode(soft).float()
            predicted = self.predict(tokens, slots, in_use)
            loss = token_loss(reconstruction, images, self.head(predicted.features).float(), tokens)
        else:
            predicted = self.predict(logits.argmax(1), slots, in_use)
            likeliest = self.head(predicted.features).argmax(-1).unflatten(1, self.grid)
            reconstruction, loss = self.autoencoder.decode_tokens(likeliest).float(), None
        masks = enlarge(predicted.attention.float().unflatten(-1, self.grid), self.image_size)
        return Decoded(reconstruction.unsqueeze(1).expand(-1, slots.shape[1], -1, -1, -1), masks, reconstruction, loss)

    def predict(
        self, tokens: Int[Tensor, "b h w"], slots: Float[Tensor, "b k d"], in_use: Bool[Tensor, "b k"]
    ) -> Prediction:
        """Features from which each token is predicted: of the slots and the tokens before it."""
        begun = F.pad(tokens.flatten(1)[:, :-1] + 1, (1, 0))
        out: Prediction = self.transformer(self.embed(begun, 0), self.transformer.remember(slots), in_use)
        return out

    @torch.no_grad()
    def generate(
        self, slots: Float[Tensor, "b k d"], in_use: Bool[Tensor, "b k"] | None = None
    ) -> Float[Tensor, "b 3 h w"]:
        """A picture from slots alone: the likeliest token, one after the other."""
        in_use = torch.ones(slots.shape[:2], dtype=torch.bool, device=slots.device) if in_use is None else in_use
        memory, past = self.transformer.remember(slots), None
        token = torch.zeros(len(slots), 1, dtype=torch.long, device=slots.device)
        predicted = []
        for place in range(self.grid[0] * self.grid[1]):
            token, past = self._next(token, place, memory, in_use, past)
            predicted.append(token - 1)
        decoded = self.autoencoder.decode_tokens(torch.cat(predicted, 1).unflatten(1, self.grid))
        return decoded.float().clamp(0, 1)

    def _next(
        self,
        token: Int[Tensor, "b 1"],
        place: int,
        memory: list[Memory],
        in_use: Bool[Tensor, "b k"],
        past: tuple[Memory, ...] | None,
    ) -> tuple[Int[Tensor, "b 1"], tuple[Memory, ...]]:
        predicted: Prediction = self.transformer(self.embed(token, place), memory, in_use, past)
        return self.head(predicted.features).argmax(-1) + 1, predicted.past

    def embed(self, tokens: Int[Tensor, "b n"], place: int) -> Float[Tensor, "b n d"]:
        """Words, of which 0 is the beginning, at places from `place` on."""
        out: Tensor = self.dropout(self.tokens(tokens) + self.places[place : place + tokens.shape[1]])
        return out

    def anneal(self, done: float) -> None:
        """Cool the soft choice along half a cosine, and keep it cold."""
        first, last = self.config.temperature
        share = min(1.0, done / self.config.cooling_share) if self.config.cooling_share else 1.0
        self.temperature.fill_(last + (first - last) * 0.5 * (1 + math.cos(math.pi * share)))


def token_loss(
    decoded: Float[Tensor, "b 3 h w"],
    images: Float[Tensor, "b 3 h w"],
    logits: Float[Tensor, "b n v"],
    tokens: Int[Tensor, "b rows columns"],
) -> Float[Tensor, ""]:
    """The autoencoder's squared error and the transformer's cross-entropy, each summed over an image."""
    error = (decoded - images).square().sum()
    likelihood = F.cross_entropy(logits.flatten(0, 1), tokens.flatten(), reduction="sum")
    return (error + likelihood) / len(images)
