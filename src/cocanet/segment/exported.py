"""What an exported file says of itself: the preset, what comes out, where the weights come from. No torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from cocanet.config import CocaNetConfig, Preset
from cocanet.config.plain import from_plain, to_plain

KEY = "cocanet"
"""Its name among the file's metadata."""
INPUT = "images"
_VERSION = 1


@dataclass(frozen=True)
class Head:
    """The model as it is in the file, slots and feedback included, and the names of what goes in and comes out."""

    preset: Preset
    outputs: Mapping[str, str]
    """Names of the outputs, in order, and what each is."""
    notes: Mapping[str, Any]
    """What was noted with the weights: steps, images, seconds, commit, command, seed, scores."""
    weights: str
    """What was exported, as it was called."""
    program: str = field(default_factory=lambda: f"cocanet {version('cocanet')}")
    """What wrote the file."""

    @property
    def model(self) -> CocaNetConfig:
        assert isinstance(self.preset.model, CocaNetConfig)
        return self.preset.model

    def to_json(self) -> str:
        return json.dumps(
            {
                "version": _VERSION,
                "program": self.program,
                "weights": self.weights,
                "input": f"{INPUT}: float32, batch × 3 × height × width, colours in [0, 1]",
                "outputs": dict(self.outputs),
                "preset": to_plain(self.preset),
                "notes": dict(self.notes),
            }
        )

    @classmethod
    def from_json(cls, text: str, origin: str) -> Head:
        """What `to_json` wrote; ValueError names `origin` and what is wrong with it."""
        try:
            plain = json.loads(text)
            if plain["version"] != _VERSION:
                raise ValueError(f"{origin} is an export of version {plain['version']}; this program reads {_VERSION}")
            preset = from_plain(Preset, plain["preset"], origin)
            head = cls(preset, plain["outputs"], plain["notes"], plain["weights"], plain["program"])
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise ValueError(f"{origin} has metadata that cannot be read: {error}") from None
        if not isinstance(preset.model, CocaNetConfig):
            raise ValueError(f"{origin} holds a {preset.model.kind}; expected a coca-net")
        return head


def describe_outputs(model: CocaNetConfig, *, decoder: bool) -> dict[str, str]:
    """Names of the outputs, in order, and what each is."""
    named = {
        "masks": "soft masks of the slots, batch × slots × height × width; they sum to 1 over the slots",
        "slots": "a vector for each slot, batch × slots × features",
        "in_use": "whether a slot is one, or only pads an image that has fewer, batch × slots",
    }
    for level in range(1, len(model.levels)):
        rows, columns = model.window_pixels(level)
        named[parts_name(level)] = (
            f"soft masks of the clusters of level {level}, each window of {rows} × {columns} pixels its own"
        )
        named[features_name(level)] = "a vector for each of them, window after window, batch × clusters × features"
    if decoder:
        named["decoder_masks"] = "the decoder's soft masks of the slots, batch × slots × height × width"
        named["reconstruction"] = "what the decoder painted, batch × 3 × height × width, in [0, 1]"
    return named


def parts_name(level: int) -> str:
    return f"level_{level}_masks"


def features_name(level: int) -> str:
    return f"level_{level}_features"
