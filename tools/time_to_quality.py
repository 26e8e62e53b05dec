"""`python -m tools.time_to_quality TITLE OLD NEW [TITLE OLD NEW …] --out FILE`: ARI-FG against minutes, run by run.

Each data set is a panel: its title, a run folder of before and one of now. Scores are the runs' own validations'.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cocanet.figures import PALETTE, save
from cocanet.runs import journal
from cocanet.runs.folder import RunFolder

SIDES = {"encoder_ari_fg": ("encoder", "-"), "decoder_ari_fg": ("decoder", ":")}


@dataclass(frozen=True)
class TimeToQuality:
    panels: tyro.conf.Positional[tuple[str, ...]]
    """A title, the run of before and the run of now, for each panel."""
    out: Path = Path("docs/images/time-to-quality.png")


def main() -> None:
    chosen = tyro.cli(TimeToQuality, prog="python -m tools.time_to_quality")
    if not chosen.panels or len(chosen.panels) % 3:
        raise SystemExit(f"expected a title and two runs for each panel; got {len(chosen.panels)} words")
    panels = [chosen.panels[start : start + 3] for start in range(0, len(chosen.panels), 3)]
    figure = Figure(figsize=(4.2 * len(panels), 3.3), layout="constrained")
    for axis, (title, before, now) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        for name, path, colour in (("before", before, PALETTE[1]), ("now", now, PALETTE[0])):
            plot(axis, Path(path), name, tuple(colour))
        axis.set(title=title, xlabel="minutes of training", ylabel="validation ARI-FG", ylim=(0, 1))
        axis.grid(alpha=0.25, lw=0.6)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False, fontsize=8)
    save(figure, chosen.out)
    print(f"{chosen.out}: {len(panels)} data sets")


def plot(axis: Axes, run: Path, name: str, colour: tuple[float, ...]) -> None:
    for score, (side, style) in SIDES.items():
        at, values = curve(run, score)
        axis.plot(at, values, style, color=colour, label=f"{name}, {side}", lw=2)


def curve(run: Path, score: str) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Minutes, and the score at each validation of a run."""
    lines = [line for line in journal.read(RunFolder(run).metrics) if line["kind"] == "validation"]
    return np.array([line["seconds"] / 60 for line in lines]), np.array([line["scores"][score] for line in lines])


if __name__ == "__main__":
    main()
