"""Small models of every kind that can be exported, and a program that exports them.

It runs as a process of its own, since the shape checks that tests run with cannot be traced.
"""

from __future__ import annotations

import sys
from pathlib import Path

from cocanet.config import CocaNetConfig, DataConfig, DynamicSlots, LevelConfig, Preset, RefineConfig
from cocanet.io.weights import write_weights
from cocanet.models.build import build
from tests.tiny import THREE, in_slot_frame, small, token_net

ATTENTIONS = (
    LevelConfig((4, 3), 2, 1.0, 1, attention="neighbourhood", kernel=3),
    LevelConfig((2, 4), 3, 1.0, 1, attention="global"),
)
MODELS: dict[str, CocaNetConfig] = {
    "three": THREE,
    "dynamic": small(levels=ATTENTIONS, norm="image", dynamic=DynamicSlots(scope_threshold=0.5, max_slots=4)),
    "frame": in_slot_frame(small()),
    "tokens": token_net(),
}
"""Three levels on images that are not square; dynamic slots with other kinds of attention; a decoder in the slots'
frame; cells of several pixels with an autoregressive token decoder."""
WITH_DECODER = ("frame", "tokens")
REFINED = ("dynamic",)
REFINE = RefineConfig(rounds=2, radius=1)
"""Fewer neighbours than usual: each is a part of the graph."""


def write_model(name: str, folder: Path) -> Path:
    """Random weights of one of the models."""
    preset = Preset(name, MODELS[name], DataConfig("tetrominoes"))
    path = folder / f"{name}.safetensors"
    write_weights(path, preset, build(preset, seed=3).state_dict(), {"step": 7, "commit": "abc"})
    return path


def main(folder: Path, format: str, *names: str) -> None:
    from cocanet.export import graph
    from cocanet.export.export_settings import SUFFIXES, ExportSettings
    from cocanet.export.exporting import export_model

    graph.RefineConfig = lambda: REFINE  # type: ignore[misc, assignment]
    for name in names:
        out = folder / f"{name}{SUFFIXES[format]}"
        settings = ExportSettings(
            format=format, out=out, decoder=name in WITH_DECODER, refine=name in REFINED, images=8
        )
        print(name, export_model(write_model(name, folder), settings).parity)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
