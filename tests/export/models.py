"""Small models of every kind that an export has to carry, and a program that exports them.

In a process of its own: the runtime checks of shapes, which tests run with, cannot be traced.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from cocanet.config import CocaNetConfig, DataConfig, DynamicSlots, FeedbackConfig, Preset
from cocanet.models.build import build
from cocanet.weights import write_weights
from tests.tiny import DEEP, THREE, in_slot_frame, small, token_net

LAST = {"regroup": True, "regroup_noise": 0.005, "rim": 0.3, "whole": 0.2, "upright": 1.0, "level": 0.5}
ROUNDS = FeedbackConfig(rounds=2, reach=1, palette=1.0, **LAST)
REGROUPED = FeedbackConfig(rounds=1, regroup=True, ground=True, pieces=True)
MODELS: dict[str, CocaNetConfig] = {
    "three": THREE,
    "dynamic": replace(DEEP, norm="image", dynamic=DynamicSlots(stop_below=0.3, most=6), feedback=REGROUPED),
    "feedback": replace(in_slot_frame(small()), feedback=ROUNDS),
    "tokens": token_net(),
}
"""Three levels of images that are not square; four with every kind of attention and dynamic slots, regrouped, the
ground joined and what is apart parted; feedback that regroups, settles rims and cuts, and a decoder in the slots'
frame; cells of several pixels, and a decoder by tokens."""
WITH_DECODER = ("feedback", "tokens")


def write_model(name: str, folder: Path) -> Path:
    """Random weights of one of the models."""
    preset = Preset(name, MODELS[name], DataConfig("tetrominoes"))
    path = folder / f"{name}.safetensors"
    write_weights(path, preset, build(preset, seed=3).state_dict(), {"step": 7, "commit": "abc"})
    return path


def main(folder: Path, format: str, *names: str) -> None:
    from cocanet.export.exporting import export_model
    from cocanet.export.settings import SUFFIXES, ExportSettings

    for name in names:
        out = folder / f"{name}{SUFFIXES[format]}"
        settings = ExportSettings(format=format, out=out, decoder=name in WITH_DECODER, images=8)
        print(name, export_model(write_model(name, folder), settings).parity)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
