"""Small baselines, images for them, and assertions that tests of several baselines share."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from scipy import stats
from torch import nn

from cocanet.config.baselines import AttentionConfig, BoQsaConfig, GenesisV2Config, InvSaConfig, SlotAttentionConfig
from cocanet.models.baselines.bo_qsa import BoQsa
from cocanet.models.baselines.genesis_v2 import GenesisV2
from cocanet.models.baselines.inv_sa import InvSa
from cocanet.models.baselines.parts import AttentionModel
from cocanet.models.baselines.slot_attention import SlotAttention
from cocanet.models.output import Decoded, Encoding
from tests.models.baselines.transcription import softmax_over_slots

CLASSES = {"slot-attention": SlotAttention, "inv-sa": InvSa, "bo-qsa": BoQsa}
SMALL = {"channels": 6, "broadcast": (8, 4), "dim": 5, "hidden": 7}
WIDE = {"channels": 16, "dim": 256}
SURELY_NOT = 1e-6
"""A chance below which a draw is not from the distribution."""


def slot_attention(**changes) -> SlotAttentionConfig:
    return SlotAttentionConfig((16, 8), 3, **({"decoder_strides": (2, 1)} | SMALL | changes))


def inv_sa(**changes) -> InvSaConfig:
    shape = {"encoder_strides": (2, 1), "decoder_strides": (2, 1), "decoder_channels": 6}
    return InvSaConfig((16, 8), 3, **(shape | SMALL | changes))


def bo_qsa(**changes) -> BoQsaConfig:
    return BoQsaConfig((16, 8), 3, **({"encoder_strides": (2, 1), "decoder_strides": (2, 1)} | SMALL | changes))


ALL = {
    "slot-attention": slot_attention(),
    "inv-sa": inv_sa(),
    "inv-sa-translation": inv_sa(scale_unit=None, decoder_kernel=1),
    "bo-qsa": bo_qsa(),
}


def make(config: AttentionConfig, seed: int = 0) -> AttentionModel:
    """A model whose norms and biases are not at their plain initial values, so that tests see them."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = CLASSES[config.kind](config)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim == 1:
                    parameter += 0.3 * torch.randn_like(parameter)
    return model


def images(config: AttentionConfig, batch: int = 2, seed: int = 0) -> torch.Tensor:
    return torch.rand(batch, 3, *config.image_size, generator=torch.Generator().manual_seed(seed))


def new(config: AttentionConfig) -> AttentionModel:
    """A model at its plain initial values."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return CLASSES[config.kind](config)


def tiny_config(**changes: Any) -> GenesisV2Config:
    return GenesisV2Config(**({"image_size": (16, 16), "slots": 4, "features": 8} | changes))


def tiny_model(seed: int = 0, gate: float | None = None, **changes: Any) -> GenesisV2:
    """A small GENESIS-v2 for 16×16 pixels, its gate at its initial value by default."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = GenesisV2(tiny_config(**changes))
    if gate is not None:
        model.colouring.gate.data.fill_(gate)
    return model


def noise_images(batch: int = 3, side: int = 16, seed: int = 0) -> torch.Tensor:
    return torch.rand(batch, 3, side, side, generator=torch.Generator().manual_seed(seed))


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    """Standard normal numbers in float64."""
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def seen(model: nn.Module, part: nn.Module, images: torch.Tensor) -> torch.Tensor:
    """What a part of the model is given first."""
    given = []
    handle = part.register_forward_pre_hook(lambda module, arguments: given.append(arguments[0].detach().clone()))
    with torch.no_grad():
        model(images)
    handle.remove()
    return given[0]


def decode(model: AttentionModel, slots: torch.Tensor) -> Decoded:
    """The decoder's output for slots that no image led to."""
    size, used = model.config.image_size, torch.ones(slots.shape[:2], dtype=torch.bool)
    encoding = Encoding(slots, torch.zeros(*slots.shape[:2], *size), used)
    return model.decoder(encoding, torch.zeros(len(slots), 3, *size))


def random_slots(*widths: int) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(3)
    return tuple(torch.randn(2, 3, width, generator=generator) for width in widths)


def assert_decoded(decoded, image: int, layers: list[np.ndarray], darkest: float) -> None:
    """Colours of the first three channels, where `darkest` is black; masks of the fourth, shared among slots."""
    layers = np.array(layers)
    colours = (layers[:, :3] - darkest) / (1 - darkest)
    masks = softmax_over_slots(layers[:, 3].reshape(len(layers), -1)).reshape(layers[:, 3].shape)
    reconstruction = sum(colour * mask for colour, mask in zip(colours, masks, strict=True))
    for found, expected in zip(decoded[:3], (colours, masks, reconstruction), strict=True):
        np.testing.assert_allclose(found[image].detach(), expected, atol=2e-5, rtol=2e-5)


def assert_uniform(values: torch.Tensor, bound: float) -> None:
    """Spread evenly up to a bound on both sides, and not beyond."""
    values = values.detach().flatten()
    assert 0.9 * bound < values.abs().max() <= bound * (1 + 1e-6)
    assert stats.kstest(values.numpy(), "uniform", args=(-bound, 2 * bound)).pvalue > SURELY_NOT


def assert_xavier(weight: torch.Tensor) -> None:
    """Uniform by the number of inputs and outputs, counted over all taps of a kernel."""
    assert_uniform(weight, math.sqrt(6 / (sum(weight.shape[:2]) * math.prod(weight.shape[2:]))))


def assert_recurrent(gru: nn.GRUCell) -> None:
    """Input weights by Xavier's rule, recurrent ones orthogonal as one matrix, no biases."""
    assert_xavier(gru.weight_ih)
    torch.testing.assert_close(gru.weight_hh.T @ gru.weight_hh, torch.eye(gru.hidden_size), atol=1e-5, rtol=0)
    assert not gru.bias_ih.any()
    assert not gru.bias_hh.any()


def assert_close(ours: torch.Tensor, expected: np.ndarray) -> None:
    torch.testing.assert_close(ours, torch.from_numpy(expected), atol=1e-10, rtol=1e-9)
