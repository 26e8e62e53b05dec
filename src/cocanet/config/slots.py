"""How many slots an image gets, said in one place: no weight depends on their number."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from cocanet.config.coca_net import CocaNetConfig, DynamicSlots
from cocanet.config.preset import ModelConfig, Preset


class SlotLimits(NamedTuple):
    """At most `most` slots; fewer where less than the share `stop_below` of an image is left unexplained."""

    most: int
    stop_below: float = 0.0
    temperature: float | None = None
    """Of the last level's affinities; as the model has it if None."""


def slot_limits(config: CocaNetConfig, *, training: bool, settled: bool = False) -> SlotLimits:
    """Dynamic slots are found at evaluation; training has a fixed number, at evaluation's temperature if `settled`."""
    if training and settled:
        last = config.levels[-1]
        return SlotLimits(config.slots, temperature=last.sharpen * last.temperature)
    if training or config.dynamic is None:
        return SlotLimits(config.slots)
    return SlotLimits(config.dynamic.most, config.dynamic.stop_below)


def with_slots(
    model: ModelConfig, slots: int | None = None, dynamic: bool | None = None, stop_below: float | None = None
) -> ModelConfig:
    """The model with another number of slots, fewer or more than it was trained with.

    With `dynamic` as many as explain the image up to the share `stop_below`, `slots` at most. None leaves each as the
    model has it.
    """
    if slots is not None and slots < 1:
        raise ValueError(f"slots must be at least 1; got {slots}")
    if stop_below is not None and not (dynamic or (dynamic is None and getattr(model, "dynamic", None))):
        raise ValueError(f"stop_below says when dynamic slots stop; got {stop_below} for a fixed number of slots")
    if slots in (None, model.slots) and not dynamic and getattr(model, "dynamic", None) is None:
        return model
    if not isinstance(model, CocaNetConfig):
        raise ValueError(f"a {model.kind} has the {model.slots} slots that it was trained with")
    if dynamic or (dynamic is None and model.dynamic is not None):
        usual = model.dynamic or DynamicSlots(most=max(DynamicSlots.most, model.slots))
        asked = DynamicSlots(
            usual.stop_below if stop_below is None else stop_below, usual.most if slots is None else slots
        )
        return replace(model, dynamic=asked)
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
