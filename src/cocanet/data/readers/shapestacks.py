"""ShapeStacks: towers seen by up to 16 cameras, one folder a scenario, with lists for the splits."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from cocanet.data.readers.files import (
    DamagedFile,
    existing_folder,
    inside,
    naming,
    natural_key,
    read_lines,
    walk,
)
from cocanet.data.readers.images import centre_box, crop_sample, read_image, read_picture, same_size
from cocanet.data.readers.reader import Reader
from cocanet.data.readers.splits import parse_split
from cocanet.data.sample import Sample

IMAGE = re.compile(r"rgb-w=\d+-f=\d+-l=\d+-c=\w+-(cam_\d+)-mono-0\.png")
SPLITS = ("default", "blocks_all", "ccs_all")
LISTS = {"train": "train.txt", "val": "eval.txt", "test": "test.txt"}
CROP, SIZE = 196, 64
LABEL_STEP = 32


class ShapeStacksReader(Reader):
    """The folder that holds `recordings/` and `splits/`; `train` alone means the split `default`."""

    background_labels = 1

    def __init__(self, path: Path, *, split: str | None = None, size: int | None = None) -> None:
        self._root = existing_folder(path)
        recordings = self._root / "recordings"
        if not recordings.is_dir():
            raise DamagedFile(f"{path}: no folder recordings in it")
        variant, part = parse_split(split, SPLITS)
        if variant and not part:
            raise ValueError(f"split {split!r}: expected {variant}/train, {variant}/val or {variant}/test")
        scenarios = self._listed(variant or SPLITS[0], part) if part else _all_scenarios(recordings)
        self._images = [image for scenario in scenarios for image in self._frames(scenario)]
        if not self._images:
            raise DamagedFile(f"{path}: no rgb-w=…-cam_…-mono-0.png in recordings/env_…")
        self.has_labels = self._mask(0).exists()
        if not self.has_labels:
            self.background_labels = 0
        self._size = size or SIZE
        self.recipe = {
            "name": "shapestacks",
            "folder": self._root.name,
            "split": split,
            "size": self._size,
            "count": len(self),
        }

    def __len__(self) -> int:
        return len(self._images)

    def _listed(self, name: str, part: str) -> list[str]:
        """The scenarios of a split file, as folders relative to the root."""
        path = inside(self._root, Path("splits") / name / LISTS[part])
        scenarios = []
        for number, line in enumerate(read_lines(path), start=1):
            folder = f"recordings/{line if line.startswith('env_') else f'env_{line}'}"
            with naming(f"{path}: line {number}"):
                if "/" in line or not inside(self._root, folder).is_dir():
                    raise ValueError(f"no scenario {line!r} in recordings")
            scenarios.append(folder)
        return scenarios

    def _frames(self, scenario: str) -> list[Path]:
        folder = inside(self._root, scenario)
        return [Path(scenario) / name for name in walk(folder) if IMAGE.fullmatch(str(name))]

    def _mask(self, index: int) -> Path:
        match = IMAGE.fullmatch(self._images[index].name)
        assert match
        name = f"iseg-w=0-f=0-l=0-c=original-{match[1]}-mono-0.map"
        return inside(self._root, self._images[index].with_name(name))

    def _read(self, index: int) -> Sample:
        path = inside(self._root, self._images[index])
        image = read_image(path)
        labels = np.zeros(image.shape[:2], dtype=np.uint8)
        if self.has_labels:
            picture = read_picture(self._mask(index))
            with naming(self._mask(index)):
                channels = np.asarray(picture.convert("RGB") if picture.mode == "P" else picture)
                labels = (channels if channels.ndim == 2 else channels[..., 0]).astype(np.uint8) // LABEL_STEP
                same_size(image, labels)
        with naming(path):
            box = centre_box(labels.shape, CROP)
        return crop_sample(image, labels, box, self._size)


def _all_scenarios(recordings: Path) -> list[str]:
    folders = sorted(recordings.glob("env_*/"), key=natural_key)
    return [f"recordings/{folder.name}" for folder in folders]
