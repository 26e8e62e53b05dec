"""`python -m tools.curves RUN…`: how the encoder's and the decoder's masks improve over minutes, one line per run.

The scores are those of the runs' validations. The picture is `docs/images/curves.png`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from cocanet.evaluate.plots import CLOCKS, plot_curves
from cocanet.evaluate.runs import group_runs, score_run

OUT = Path(__file__).parents[1] / "docs/images/curves.png"
SCORES = ("encoder_ari_fg", "encoder_msc_fg", "decoder_ari_fg", "decoder_msc_fg", "mse")


@dataclass(frozen=True)
class Curves:
    """Draw the curves of runs."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    out: Path = OUT


def main() -> None:
    chosen = tyro.cli(Curves, prog="python -m tools.curves")
    groups = group_runs([score_run(run, evaluate=False) for run in chosen.runs])
    minutes = {"seconds": CLOCKS["seconds"]}
    figure = plot_curves(groups, names=SCORES, clocks=minutes, labels=[group.data_name for group in groups])
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(chosen.out, dpi=110)
    print(chosen.out)


if __name__ == "__main__":
    main()
