"""The paper's variants of a run, each a function from preset to preset."""

from __future__ import annotations

from dataclasses import replace

from cocanet.config import CocaNetConfig, DecoderConfig, DynamicSlots, Preset


def with_random_anchors(preset: Preset) -> Preset:
    """COCA-Net-RAS: anchors drawn at random from the scope instead of by compactness."""
    return replace(preset, name=f"{preset.name}-ras", model=replace(as_coca_net(preset), anchors="random"))


def with_dynamic_slots(preset: Preset, scope_threshold: float = 0.025, max_slots: int = 11) -> Preset:
    """COCA-Net-Dyna: the number of slots adapts to the scene at evaluation."""
    dynamic = DynamicSlots(scope_threshold, max_slots)
    return replace(preset, name=f"{preset.name}-dyna", model=replace(as_coca_net(preset), dynamic=dynamic))


def with_dilated_candidates(preset: Preset, stride: int = 2) -> Preset:
    """Only every `stride`-th cell, in both directions, is a candidate anchor."""
    model = as_coca_net(preset)
    levels = tuple(replace(level, candidate_stride=stride) for level in model.levels)
    return replace(preset, name=f"{preset.name}-dilated", model=replace(model, levels=levels))


def as_coca_net(preset: Preset) -> CocaNetConfig:
    """The preset's model, if it is a COCA-Net."""
    if not isinstance(preset.model, CocaNetConfig):
        raise ValueError(f"{preset.name} is a {preset.model.kind}; only a coca-net has variants")
    return preset.model


def broadcast_decoder(model: CocaNetConfig) -> DecoderConfig:
    """The model's decoder, if it is a spatial broadcast decoder."""
    if not isinstance(model.decoder, DecoderConfig):
        raise ValueError(
            f"this variant needs a spatial broadcast decoder; this model has a {model.decoder.kind[:-1]} decoder"
        )
    return model.decoder
