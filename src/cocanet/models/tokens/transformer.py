"""The causal transformer: the next token from those before it and from the slots."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor, nn

from cocanet.config.tokens import TokenDecoderConfig
from cocanet.layers.linear import linear

GROWTH = 4
"""Hidden features of a block's MLP, in those of a token."""


class Memory(NamedTuple):
    """What queries attend to: keys and values by head."""

    keys: Float[Tensor, "b heads m d"]
    values: Float[Tensor, "b heads m d"]

    def followed_by(self, other: Memory) -> Memory:
        return Memory(*(torch.cat(pair, 2) for pair in zip(self, other, strict=True)))


class Heads(nn.Module):
    """The four maps of multi-head attention, without biases."""

    def __init__(self, dim: int, heads: int, gain: float) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (linear(dim, dim, bias=False) for _ in range(4))
        with torch.no_grad():
            self.out.weight.mul_(gain)

    def remember(self, x: Float[Tensor, "b m d"]) -> Memory:
        return Memory(self._split(self.key(x)), self._split(self.value(x)))

    def ask(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b heads n e"]:
        return self._split(self.query(x))

    def answer(self, mixed: Float[Tensor, "b heads n e"]) -> Float[Tensor, "b n d"]:
        out: Tensor = self.out(rearrange(mixed, "b h n e -> b n (h e)"))
        return out

    def _split(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b heads n e"]:
        return rearrange(x, "b n (h e) -> b h n e", h=self.heads)


class Prediction(NamedTuple):
    """Output of one block, or of all of them."""

    features: Float[Tensor, "b n d"]
    attention: Float[Tensor, "b k n"]
    """Attention of each token to each slot, the mean over heads and blocks; sums to 1 over the slots."""
    past: tuple[Memory, ...]
    """Keys and values for later tokens, by block."""


class Block(nn.Module):
    """Attention to the tokens before, attention to the slots, and an MLP, each normalised first and added."""

    def __init__(self, config: TokenDecoderConfig, first: bool) -> None:
        super().__init__()
        dim, gain = config.dim, (3 * config.blocks) ** -0.5
        self.first = first
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(3))
        self.tokens, self.slots = (Heads(dim, config.heads, gain) for _ in range(2))
        self.inner, self.outer = linear(dim, GROWTH * dim), linear(GROWTH * dim, dim)
        nn.init.kaiming_uniform_(self.inner.weight, nonlinearity="relu")
        with torch.no_grad():
            self.outer.weight.mul_(gain)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self, x: Float[Tensor, "b n d"], slots: Memory, in_use: Bool[Tensor, "b k"], past: Memory | None
    ) -> Prediction:
        of_tokens, of_slots, of_mlp = self.norms
        normed = of_tokens(x)
        if self.first:
            x = normed
        own = self.tokens.remember(normed)
        seen = own if past is None else past.followed_by(own)
        mixed = F.scaled_dot_product_attention(self.tokens.ask(normed), *seen, is_causal=past is None)
        x = x + self.dropout(self.tokens.answer(mixed))
        attention = _attention(self.slots.ask(of_slots(x)), slots.keys, in_use)
        x = x + self.dropout(self.slots.answer(attention @ slots.values))
        x = x + self.dropout(self.outer(F.relu_(self.inner(of_mlp(x)))))
        return Prediction(x, rearrange(attention.mean(1), "b n k -> b k n"), (seen,))


def _attention(
    queries: Float[Tensor, "b h n e"], keys: Float[Tensor, "b h k e"], in_use: Bool[Tensor, "b k"]
) -> Float[Tensor, "b h n k"]:
    """Softmax over the slots; one that is not in use gets nothing."""
    logits = queries @ keys.mT * keys.shape[-1] ** -0.5
    out: Tensor = logits.masked_fill(~in_use[:, None, None], -torch.inf).softmax(-1)
    return out


class Transformer(nn.Module):
    """Features of tokens, each from those before it and itself, and from the slots."""

    def __init__(self, config: TokenDecoderConfig, slot_dim: int) -> None:
        super().__init__()
        self.slots = linear(slot_dim, config.dim, bias=False)
        self.blocks = nn.ModuleList(Block(config, first=number == 0) for number in range(config.blocks))
        self.norm = nn.LayerNorm(config.dim)

    def remember(self, slots: Float[Tensor, "b k e"]) -> list[Memory]:
        """What each block knows of the slots, for any number of tokens."""
        x = self.slots(slots)
        return [block.slots.remember(x) for block in self.blocks]  # type: ignore[union-attr, operator]

    def forward(
        self,
        x: Float[Tensor, "b n d"],
        slots: list[Memory],
        in_use: Bool[Tensor, "b k"],
        past: tuple[Memory, ...] | None = None,
    ) -> Prediction:
        """With the `past` of the tokens before, `x` is the one token that comes next."""
        attention: list[Tensor] = []
        memories: list[Memory] = []
        for number, block in enumerate(self.blocks):
            predicted: Prediction = block(x, slots[number], in_use, None if past is None else past[number])
            x = predicted.features
            attention.append(predicted.attention)
            memories.extend(predicted.past)
        return Prediction(self.norm(x), torch.stack(attention).mean(0), tuple(memories))
