"""`python -m tools.gallery`: the shipped weights of all data sets in one picture, two scenes a set, for the README."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
import tyro

from cocanet.data.splits import open_split
from cocanet.figures.gallery import Discovered, gallery_figure
from cocanet.figures.pictured import pick
from cocanet.figures.saving import save
from cocanet.weights import open_model, shipped_names

ORDER = ("tetrominoes", "multi-dsprites", "objects-room", "shapestacks", "clevr6", "clevrtex")
"""As the paper has them."""


@dataclass(frozen=True)
class Gallery:
    out: Path = Path("docs/images/gallery.png")
    scenes: int = 2
    """Of each data set, from `first` on."""
    first: int = 0


@torch.no_grad()
def main() -> None:
    chosen = tyro.cli(Gallery, prog="python -m tools.gallery")
    sets = []
    for name in (name for name in ORDER if name in shipped_names()):
        trained = open_model(name)
        shown = pick(open_split(trained.preset.data, "validation"), chosen.scenes, chosen.first)
        sets.append(Discovered(name, shown.images, shown.truth, trained.model(shown.images), shown.background_labels))
    save(gallery_figure(sets), chosen.out)
    print(f"{chosen.out}: {chosen.scenes} validation scenes of {len(sets)} data sets")


if __name__ == "__main__":
    main()
