"""From a configuration to a model."""

from __future__ import annotations

from importlib import import_module
from typing import overload

import torch

from cocanet.config import (
    CocaNetConfig,
    FeatureBackboneConfig,
    FeatureDecoderConfig,
    ModelConfig,
    Preset,
    TokenDecoderConfig,
)
from cocanet.models.backbone import Backbone
from cocanet.models.coca_net import CocaNet
from cocanet.models.decoder import BroadcastDecoder, SlotDecoder
from cocanet.models.feature_backbone import FeatureBackbone
from cocanet.models.feature_decoder import FeatureDecoder
from cocanet.models.hierarchy import Hierarchy
from cocanet.models.model import ObjectModel
from cocanet.models.pretrained import PretrainedFeatures
from cocanet.models.tokens import TokenDecoder
from cocanet.runtime import keep_freed_memory


@overload
def build(config: CocaNetConfig, seed: int | None = None) -> CocaNet: ...


@overload
def build(config: Preset | ModelConfig, seed: int | None = None) -> ObjectModel: ...


def build(config: Preset | ModelConfig, seed: int | None = None) -> ObjectModel:
    """A model with fresh weights: the same for the same seed, or from torch's own generator without one."""
    keep_freed_memory()
    model = config.model if isinstance(config, Preset) else config
    if seed is None:
        return _assemble(model)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _assemble(model)


def _assemble(config: ModelConfig) -> ObjectModel:
    if isinstance(config, CocaNetConfig):
        return _coca_net(config)
    # A baseline's module is named after its kind, and its MODEL is the class.
    baseline = import_module(f"cocanet.models.baselines.{config.kind.replace('-', '_')}")
    model: ObjectModel = baseline.MODEL(config)
    return model


def _coca_net(config: CocaNetConfig) -> CocaNet:
    backbone = _backbone(config)
    return CocaNet(config, backbone=backbone, hierarchy=Hierarchy(config), decoder=_decoder(config, backbone))


def _backbone(config: CocaNetConfig) -> Backbone | FeatureBackbone:
    if isinstance(config.backbone, FeatureBackboneConfig):
        return FeatureBackbone(PretrainedFeatures(config.backbone), config.dim, config.norm)
    return Backbone(config.backbone, config.grid, config.dim, config.norm)


def _decoder(config: CocaNetConfig, backbone: Backbone | FeatureBackbone) -> SlotDecoder:
    if isinstance(config.decoder, FeatureDecoderConfig):
        assert isinstance(backbone, FeatureBackbone)
        return FeatureDecoder(config.decoder, backbone.pretrained, config.image_size, config.dim)
    if isinstance(config.decoder, TokenDecoderConfig):
        return TokenDecoder(config.decoder, config.image_size, config.dim)
    return BroadcastDecoder(config.decoder, config.dim)
