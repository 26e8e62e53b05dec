"""What a model, a data set and a run are: frozen dataclasses of plain values, which need no torch."""

from cocanet.config.baselines import AttentionConfig, BoQsaConfig, GenesisV2Config, InvSaConfig, SlotAttentionConfig
from cocanet.config.coca_net import (
    AnchorRule,
    AttentionReach,
    BackboneConfig,
    CocaNetConfig,
    ConvConfig,
    DecoderConfig,
    DynamicSlots,
    Frame,
    InertiaRule,
    LevelConfig,
    NormScope,
)
from cocanet.config.features import FeatureBackboneConfig, FeatureDecoderConfig
from cocanet.config.preset import DataConfig, Fit, ModelConfig, Preset
from cocanet.config.refine import RefineConfig
from cocanet.config.tokens import TokenDecoderConfig
from cocanet.config.training import Adam, Muon, Precision, Reconstruction, RunConfig, Schedule, Stage, TrainConfig
from cocanet.config.windows import Window

__all__ = [
    "Adam",
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
    "FeatureBackboneConfig",
    "FeatureDecoderConfig",
    "Fit",
    "Frame",
    "GenesisV2Config",
    "InertiaRule",
    "InvSaConfig",
    "LevelConfig",
    "ModelConfig",
    "Muon",
    "NormScope",
    "Precision",
    "Preset",
    "Reconstruction",
    "RefineConfig",
    "RunConfig",
    "Schedule",
    "SlotAttentionConfig",
    "Stage",
    "TokenDecoderConfig",
    "TrainConfig",
    "Window",
]
