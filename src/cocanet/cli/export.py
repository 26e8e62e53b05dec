"""`coca export`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import tyro

from cocanet.cli.weights_argument import Weights
from cocanet.export.settings import ExportSettings


@dataclass(frozen=True)
class ExportModel:
    """Write a trained COCA-Net for another runtime, and compare what it finds there with what torch finds."""

    weights: Weights
    what: tyro.conf.OmitArgPrefixes[ExportSettings] = field(default_factory=ExportSettings)
    checkpoint: Literal["last", "best"] = "last"
    """Which checkpoint of a run folder."""

    def run(self) -> None:
        from cocanet.cli.console import ConsoleWatcher
        from cocanet.export.exporting import export_model

        made = export_model(self.weights, self.what, checkpoint=self.checkpoint, watcher=ConsoleWatcher())
        print(f"{made.path}: {made.bytes / 1e6:.1f} MB, {', '.join(made.head.outputs)}")
        print(f"{made.parity}")
