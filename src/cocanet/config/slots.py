"""The number of slots of an image; no weight depends on it."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from cocanet.config.coca_net import CocaNetConfig, DynamicSlots
from cocanet.config.preset import ModelConfig, Preset


class SlotLimits(NamedTuple):
    """At most `max_slots` slots; fewer where less than the share `scope_threshold` of the scope is left."""

    max_slots: int
    scope_threshold: float = 0.0
    temperature: float | None = None
    """Temperature of the last level's affinities; None for the model's own."""


def slot_limits(config: CocaNetConfig, *, training: bool) -> SlotLimits:
    """Slots are dynamic at evaluation only; training has a fixed number."""
    if training or config.dynamic is None:
        return SlotLimits(config.slots)
    return SlotLimits(config.dynamic.max_slots, config.dynamic.scope_threshold)


def with_slots(
    model: ModelConfig, slots: int | None = None, dynamic: bool | None = None, scope_threshold: float | None = None
) -> ModelConfig:
    """The model with another number of slots than it was trained with.

    With `dynamic`, slots are added until less than the share `scope_threshold` of the scope is left, `slots` at most.
    None keeps the model's own value.
    """
    if slots is not None and slots < 1:
        raise ValueError(f"slots must be at least 1; got {slots}")
    if scope_threshold is not None and not (dynamic or (dynamic is None and getattr(model, "dynamic", None))):
        raise ValueError(f"scope_threshold needs dynamic slots; got {scope_threshold} for a fixed number of slots")
    if slots in (None, model.slots) and not dynamic and getattr(model, "dynamic", None) is None:
        return model
    if not isinstance(model, CocaNetConfig):
        raise ValueError(f"a {model.kind} always has the {model.slots} slots of its training")
    if dynamic or (dynamic is None and model.dynamic is not None):
        usual = model.dynamic or DynamicSlots(max_slots=max(DynamicSlots.max_slots, model.slots))
        dynamic_slots = DynamicSlots(
            scope_threshold=usual.scope_threshold if scope_threshold is None else scope_threshold,
            max_slots=usual.max_slots if slots is None else slots,
        )
        return replace(model, dynamic=dynamic_slots)
    *below, last = model.levels
    return replace(model, dynamic=None, levels=(*below, replace(last, clusters=slots or last.clusters)))


def preset_with_slots(preset: Preset, slots: int | None = None, dynamic: bool | None = None) -> Preset:
    """A preset that evaluates with other slots; its name says which."""
    model = with_slots(preset.model, slots, dynamic)
    if model == preset.model:
        return preset
    added = isinstance(model, CocaNetConfig) and model.dynamic is not None
    suffix = "" if added and getattr(preset.model, "dynamic", None) else "-dyna" if added else f"-slots{model.slots}"
    return replace(preset, name=preset.name + suffix, model=model)
