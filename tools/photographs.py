"""`python -m tools.photographs BIRDS FLOWERS FLOWERS17 OUT`: Birds and Flowers as stores to train, watch and test on.

    OUT/birds/train         published training images, without those that validate; some have no mask
    OUT/birds/validation    320 of the published training images that have a mask, evenly spaced among them
    OUT/birds/test          the published validation split
    OUT/flowers/train       the training images of Flowers-102 (`tstid`); masks are not needed
    OUT/flowers/validation  every third image of Flowers-17, from the first on
    OUT/flowers/test        the others of Flowers-17

`coca train birds --data OUT/birds` then takes them as they are. Flowers-17 is a folder of `images/` and `masks/`. A run
that was stopped goes on with the same command; a store that is complete is left as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from cocanet.cli.console import ConsoleWatcher
from cocanet.data.filling import fill
from cocanet.data.readers.birds import BirdsReader
from cocanet.data.readers.flowers import FlowersReader
from cocanet.data.readers.folder import FolderReader
from cocanet.data.sample import Sample, Source
from cocanet.paper_scores import FLOWERS17
from cocanet.watch import QUIET, Watcher

SIZE = 128
VALIDATION_BIRDS = 320
EVERY = 3
"""One in so many images of Flowers-17 validates."""


@dataclass(frozen=True)
class Photographs:
    birds: tyro.conf.Positional[Path]
    """CUB-200-2011 with `segmentations/` and `train_val_test_split.txt`."""
    flowers: tyro.conf.Positional[Path]
    """Flowers-102: `jpg/` and `setid.mat`."""
    flowers17: tyro.conf.Positional[Path]
    """Flowers-17: `images/` and `masks/`."""
    out: tyro.conf.Positional[Path]
    """Folder of the stores."""
    size: int = SIZE
    """Pixels a side."""


class Chosen:
    """Some samples of a source, in its order; what was chosen is part of the recipe."""

    def __init__(self, source: Source, indices: Sequence[int], recipe: Mapping[str, Any]) -> None:
        self.source, self.indices = source, indices
        self.recipe = {**source.recipe, **recipe, "count": len(indices)}
        self.background_labels, self.has_labels = source.background_labels, source.has_labels

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Sample:
        return self.source[self.indices[index]]


def main() -> None:
    chosen = tyro.cli(Photographs, prog="python -m tools.photographs")
    prepare(chosen, ConsoleWatcher())


def prepare(chosen: Photographs, watcher: Watcher = QUIET) -> None:
    """Write what is missing of all six stores. The files are looked at first, so that a wrong folder writes nothing."""
    sources = {
        **{f"birds/{split}": source for split, source in birds(chosen.birds, chosen.size).items()},
        **{f"flowers/{split}": source for split, source in flowers(chosen, chosen.size).items()},
    }
    for name, source in sources.items():
        fill(source, chosen.out / name, watcher=watcher)


def birds(path: Path, size: int = SIZE) -> dict[str, Source]:
    """The published splits, the training images divided; none of them has a mask that is looked at while training."""
    published = BirdsReader(path, split="train", size=size)
    masked = [index for index in range(len(published)) if published.is_segmented(index)]
    watched = evenly(masked, min(VALIDATION_BIRDS, len(masked) // 10))
    trained = sorted(set(range(len(published))) - set(watched))
    of_them = len(masked) - len(watched)
    return {
        "train": Chosen(published, trained, {"part": "all but those that validate", "segmented": of_them}),
        "validation": Chosen(
            published, watched, {"part": "evenly spaced of those with a mask", "segmented": len(watched)}
        ),
        "test": BirdsReader(path, split="val", size=size),
    }


def flowers(chosen: Photographs, size: int = SIZE) -> dict[str, Source]:
    """Flowers-102 to train on, and Flowers-17, whose masks are by others, to be judged by."""
    judged = FolderReader(chosen.flowers17, size=size)
    first = list(range(0, len(judged), EVERY))
    others = [index for index in range(len(judged)) if index % EVERY]
    return {
        "train": FlowersReader(chosen.flowers, split="train", size=size),
        "validation": Chosen(judged, first, {"name": FLOWERS17, "part": "every third"}),
        "test": Chosen(judged, others, {"name": FLOWERS17, "part": "all but every third"}),
    }


def evenly(places: Sequence[int], count: int) -> list[int]:
    """`count` of the places, from the first on, as evenly spaced as whole numbers allow."""
    return [places[number * len(places) // count] for number in range(count)]


if __name__ == "__main__":
    main()
