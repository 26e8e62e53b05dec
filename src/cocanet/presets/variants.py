"""The paper's variants of a run, each a function from preset to preset."""

from __future__ import annotations

from dataclasses import replace

from cocanet.config import CocaNetConfig, DecoderConfig, DynamicSlots, Preset


def with_random_anchors(preset: Preset) -> Preset:
    """COCA-Net-RAS: anchors drawn at random from the scope instead of by compactness."""
    return replace(preset, name=f"{preset.name}-ras", model=replace(as_coca_net(preset), anchors="random"))


def with_dynamic_slots(preset: Preset, stop_below: float = 0.025, most: int = 11) -> Preset:
    """COCA-Net-Dyna: at evaluation as many slots as it takes to explain the scene."""
    dynamic = DynamicSlots(stop_below, most)
    return replace(preset, name=f"{preset.name}-dyna", model=replace(as_coca_net(preset), dynamic=dynamic))


def with_dilated_candidates(preset: Preset, stride: int = 2) -> Preset:
    """Only every `stride`-th cell, in both directions, is a candidate anchor."""
    model = as_coca_net(preset)
    levels = tuple(replace(level, candidate_stride=stride) for level in model.levels)
    return replace(preset, name=f"{preset.name}-dilated", model=replace(model, levels=levels))


def with_fourier_positions(preset: Preset, octaves: int = 4) -> Preset:
    """Fourier features in the decoder's position embedding: beyond the paper, and it learns much faster."""
    model = as_coca_net(preset)
    decoder = replace(mixing(model), octaves=octaves)
    return replace(preset, name=f"{preset.name}-fourier", model=replace(model, decoder=decoder))


def as_coca_net(preset: Preset) -> CocaNetConfig:
    """The preset's model, if it is a COCA-Net."""
    if not isinstance(preset.model, CocaNetConfig):
        raise ValueError(f"{preset.name} is a {preset.model.kind}; its variants are those of a coca-net only")
    return preset.model


def mixing(model: CocaNetConfig) -> DecoderConfig:
    """The model's decoder, if it mixes pictures of the slots."""
    if not isinstance(model.decoder, DecoderConfig):
        raise ValueError("this variant is one of decoders that mix pictures; this model tells tokens")
    return model.decoder
