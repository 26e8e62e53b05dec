"""From a configuration to a model."""

from __future__ import annotations

import torch

from cocanet.config import CocaNetConfig, Preset
from cocanet.layers.position import ShapeEmbedding
from cocanet.models.backbone import Backbone
from cocanet.models.coca_net import CocaNet
from cocanet.models.decoder import BroadcastDecoder
from cocanet.models.hierarchy import Hierarchy
from cocanet.runtime import keep_freed_memory


def build(config: Preset | CocaNetConfig, seed: int | None = None) -> CocaNet:
    """A model with fresh weights: the same for the same seed, or from torch's own generator without one."""
    keep_freed_memory()
    model = config.model if isinstance(config, Preset) else config
    if seed is None:
        return _assemble(model)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _assemble(model)


def _assemble(config: CocaNetConfig) -> CocaNet:
    in_slot_frame = config.decoder.frame == "slot"
    return CocaNet(
        config,
        backbone=Backbone(config.backbone, config.image_size, config.dim, config.norm),
        hierarchy=Hierarchy(config),
        decoder=BroadcastDecoder(config.decoder, config.dim),
        shape=ShapeEmbedding(*config.image_size, config.dim, config.decoder.octaves) if in_slot_frame else None,
    )
