"""`python -m tools.photographs BIRDS FLOWERS FLOWERS17 OUT`: Birds and Flowers as stores for training and evaluation.

    OUT/birds/train         published training images without the validation images; some have no mask
    OUT/birds/validation    320 published training images with a mask, evenly spaced
    OUT/birds/test          the published validation split
    OUT/birds-moved         those of the test images that can be cropped off centre, and are: the bird's centre lies a
                            quarter of the side from the crop's centre, down or up, left or right, or both
    OUT/birds-unmoved       the same images, cropped as usual
    OUT/flowers/train       the training images of Flowers-102 (`tstid`); masks are not needed
    OUT/flowers/validation  every third image of Flowers-17, from the first on
    OUT/flowers/test        the others of Flowers-17

`coca train birds --data OUT/birds` then trains on them. Flowers-17 is a folder of `images/` and `masks/`. The same
command continues after an interruption; complete stores are left as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro
from PIL import Image

from cocanet.cli.progress import ConsoleProgress
from cocanet.data.readers.birds import BirdsReader
from cocanet.data.readers.flowers import FlowersReader
from cocanet.data.readers.folder import FolderReader
from cocanet.data.readers.image_files import Box
from cocanet.data.sample import Sample, Source
from cocanet.data.store_writer import write_store
from cocanet.paper_scores import FLOWERS17
from cocanet.progress import QUIET, Progress

SIZE = 128
AWAY = 0.25
"""Distance of a moved bird's centre from the centre of its crop, in both directions at most, as a share of the side."""
DIRECTIONS = ((-1, -1), (-1, 1), (1, -1), (1, 1), (0, -1), (0, 1), (-1, 0), (1, 0))
VALIDATION_BIRDS = 320
EVERY = 3
"""Every third image of Flowers-17 is for validation."""


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
    train: int | None = None
    """Training images of each set, evenly spaced; all of them if left out."""


class Chosen:
    """Some samples of a source, in its order; the choice is part of the recipe."""

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
    prepare(chosen, ConsoleProgress())


def prepare(chosen: Photographs, progress: Progress = QUIET) -> None:
    """Write the stores that are missing. All files are checked first, so that a wrong folder writes nothing."""
    sources = {
        **{f"birds/{split}": source for split, source in birds(chosen.birds, chosen.size).items()},
        **{f"flowers/{split}": source for split, source in flowers(chosen, chosen.size).items()},
        **moved_birds(chosen.birds, chosen.size),
    }
    if chosen.train is not None:
        for name in ("birds/train", "flowers/train"):
            source = sources[name]
            few = evenly(range(len(source)), min(chosen.train, len(source)))
            sources[name] = Chosen(source, few, {"part": f"{source.recipe.get('part', 'all')}, evenly spaced"})
    for name, source in sources.items():
        write_store(source, chosen.out / name, progress=progress)


def birds(path: Path, size: int = SIZE) -> dict[str, Source]:
    """The published splits, with validation images taken from the training split. Training uses no masks."""
    published = BirdsReader(path, split="train", size=size)
    masked = [index for index in range(len(published)) if published.is_segmented(index)]
    validation = evenly(masked, min(VALIDATION_BIRDS, len(masked) // 10))
    trained = sorted(set(range(len(published))) - set(validation))
    segmented = len(masked) - len(validation)
    return {
        "train": Chosen(published, trained, {"part": "all but validation", "segmented": segmented}),
        "validation": Chosen(
            published, validation, {"part": "evenly spaced of those with a mask", "segmented": len(validation)}
        ),
        "test": BirdsReader(path, split="val", size=size),
    }


class MovedBirds(BirdsReader):
    """Crops of the usual size in which the bird lies off centre, where the image has room for one."""

    def __init__(self, path: Path, *, split: str, size: int) -> None:
        super().__init__(path, split=split, size=size)
        self.boxes = {index: box for index in range(len(self)) if (box := self._moved(index)) is not None}

    def _moved(self, index: int) -> Box | None:
        """A crop inside the image; every image begins its search at another direction."""
        bird = self._birds[index]
        with Image.open(self._root / "images" / bird.name) as picture:
            width, height = picture.size
        left, top, wide, high = bird.box
        half = int(0.75 * max(wide, high))
        for number in range(len(DIRECTIONS)):
            down, along = DIRECTIONS[(index + number) % len(DIRECTIONS)]
            row = int(top + high / 2 + down * 2 * AWAY * half)
            column = int(left + wide / 2 + along * 2 * AWAY * half)
            box = Box(row - half, column - half, row + half, column + half)
            if bird.segmented and min(box) >= 0 and box.bottom <= height and box.right <= width:
                return box
        return None

    def _crop(self, index: int, shape: tuple[int, ...]) -> Box:
        return self.boxes[index]


def moved_birds(path: Path, size: int = SIZE) -> dict[str, Source]:
    """Test images off centre, and the same ones as usual; nothing if no image has room."""
    moved = MovedBirds(path, split="val", size=size)
    indices = list(moved.boxes)
    if not indices:
        return {}
    part = {"part": "test images with room to move", "segmented": len(indices)}
    return {
        "birds-moved": Chosen(moved, indices, part | {"moved": AWAY}),
        "birds-unmoved": Chosen(BirdsReader(path, split="val", size=size), indices, part),
    }


def flowers(chosen: Photographs, size: int = SIZE) -> dict[str, Source]:
    """Flowers-102 for training; Flowers-17, which has its own masks, for validation and test."""
    seventeen = FolderReader(chosen.flowers17, size=size)
    first = list(range(0, len(seventeen), EVERY))
    others = [index for index in range(len(seventeen)) if index % EVERY]
    return {
        "train": FlowersReader(chosen.flowers, split="train", size=size),
        "validation": Chosen(seventeen, first, {"name": FLOWERS17, "part": "every third"}),
        "test": Chosen(seventeen, others, {"name": FLOWERS17, "part": "all but every third"}),
    }


def evenly(places: Sequence[int], count: int) -> list[int]:
    """`count` of the places, from the first on, as evenly spaced as whole numbers allow."""
    return [places[number * len(places) // count] for number in range(count)]


if __name__ == "__main__":
    main()
