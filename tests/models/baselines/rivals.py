"""Small rivals: 16×8 images, a few features."""

from __future__ import annotations

import torch

from cocanet.config.rivals import AttentionConfig, BoQsaConfig, InvSaConfig, SlotAttentionConfig
from cocanet.models.baselines.attention_model import AttentionModel
from cocanet.models.baselines.bo_qsa import BoQsa
from cocanet.models.baselines.inv_sa import InvSa
from cocanet.models.baselines.slot_attention import SlotAttention

CLASSES = {"slot-attention": SlotAttention, "inv-sa": InvSa, "bo-qsa": BoQsa}
SMALL = {"channels": 6, "broadcast": (8, 4), "dim": 5, "hidden": 7}


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
