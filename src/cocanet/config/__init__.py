"""What a model, a data set and a run are: frozen dataclasses of plain values, which need no torch."""

from cocanet.config.coca_net import (
    AnchorRule,
    AttentionReach,
    BackboneConfig,
    CocaNetConfig,
    ConvConfig,
    DecoderConfig,
    DynamicSlots,
    FeedbackConfig,
    Frame,
    LevelConfig,
    NormScope,
)
from cocanet.config.preset import DataConfig, Fit, ModelConfig, Preset
from cocanet.config.rivals import AttentionConfig, BoQsaConfig, GenesisV2Config, InvSaConfig, SlotAttentionConfig
from cocanet.config.tokens import TokenDecoderConfig
from cocanet.config.training import Precision, RunConfig, TrainConfig
from cocanet.config.windows import Window

__all__ = [
    "AnchorRule",
    "AttentionConfig",
    "AttentionReach",
    "BackboneConfig",
    "BoQsaConfig",
    "CocaNetConfig",
    "ConvConfig",
    "DataConfig",
    "DecoderConfig",
    "DynamicSlots",
    "FeedbackConfig",
    "Fit",
    "Frame",
    "GenesisV2Config",
    "InvSaConfig",
    "LevelConfig",
    "ModelConfig",
    "NormScope",
    "Precision",
    "Preset",
    "RunConfig",
    "SlotAttentionConfig",
    "TokenDecoderConfig",
    "TrainConfig",
    "Window",
]
