"""`coca export`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import tyro

from cocanet.cli.arguments import Weights
from cocanet.export.export_settings import ExportSettings


@dataclass(frozen=True)
class ExportModel:
    """Export a trained COCA-Net to another runtime, and compare its masks there with those in torch."""

    weights: Weights
    what: tyro.conf.OmitArgPrefixes[ExportSettings] = field(default_factory=ExportSettings)
    checkpoint: Literal["last", "best"] = "last"
    """Which checkpoint of a run folder."""

    def run(self) -> None:
        from cocanet.cli.progress import ConsoleProgress
        from cocanet.export.exporting import export_model

        made = export_model(self.weights, self.what, checkpoint=self.checkpoint, progress=ConsoleProgress())
        refined = ", masks refined" if made.metadata.refined else ""
        print(f"{made.path}: {made.bytes / 1e6:.1f} MB, {', '.join(made.metadata.outputs)}{refined}")
        print(f"{made.parity}")
