"""ShapeStacks: towers seen by up to 16 cameras, one folder for each scenario, with lists for the splits."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from cocanet.data.readers.base import PairedFiles, parse_split
from cocanet.data.readers.image_files import Box, centre_box
from cocanet.data.readers.input_files import DamagedFile, existing_folder, inside, naming, natural_key, read_lines, walk

IMAGE = re.compile(r"rgb-w=\d+-f=\d+-l=\d+-c=\w+-(cam_\d+)-mono-0\.png")
SPLITS = ("default", "blocks_all", "ccs_all")
LISTS = {"train": "train.txt", "val": "eval.txt", "test": "test.txt"}
CROP, SIZE = 196, 64
LABEL_STEP = 32


class ShapeStacksReader(PairedFiles):
    """The folder that holds `recordings/` and `splits/`; `train` alone means the split `default`."""

    def __init__(self, path: Path, *, split: str | None = None, size: int | None = None) -> None:
        root = existing_folder(path)
        recordings = root / "recordings"
        if not recordings.is_dir():
            raise DamagedFile(f"{path}: no folder recordings in it")
        variant, part = parse_split(split, SPLITS)
        if variant and not part:
            raise ValueError(f"split {split!r}: expected {variant}/train, {variant}/val or {variant}/test")
        scenarios = _listed(root, variant or SPLITS[0], part) if part else _all_scenarios(recordings)
        images = [
            Path(scenario) / name
            for scenario in scenarios
            for name in walk(inside(root, scenario))
            if IMAGE.fullmatch(str(name))
        ]
        if not images:
            raise DamagedFile(f"{path}: no rgb-w=…-cam_…-mono-0.png in recordings/env_…")
        super().__init__(root, images, {"name": "shapestacks", "split": split}, size or SIZE)

    def _mask(self, index: int) -> Path:
        match = IMAGE.fullmatch(self._images[index].name)
        assert match
        name = f"iseg-w=0-f=0-l=0-c=original-{match[1]}-mono-0.map"
        return inside(self._root, self._images[index].with_name(name))

    def _labels(self, mask: Image.Image) -> UInt8[np.ndarray, "h w"]:
        channels = np.asarray(mask.convert("RGB") if mask.mode == "P" else mask)
        return (channels if channels.ndim == 2 else channels[..., 0]).astype(np.uint8) // LABEL_STEP

    def _crop(self, shape: tuple[int, ...]) -> Box:
        return centre_box(shape, CROP)


def _listed(root: Path, name: str, part: str) -> list[str]:
    """The scenarios of a split file, as folders relative to the root."""
    path = inside(root, Path("splits") / name / LISTS[part])
    scenarios = []
    for number, line in enumerate(read_lines(path), start=1):
        folder = f"recordings/{line if line.startswith('env_') else f'env_{line}'}"
        with naming(f"{path}: line {number}"):
            if "/" in line or not inside(root, folder).is_dir():
                raise ValueError(f"no scenario {line!r} in recordings")
        scenarios.append(folder)
    return scenarios


def _all_scenarios(recordings: Path) -> list[str]:
    folders = sorted(recordings.glob("env_*/"), key=natural_key)
    return [f"recordings/{folder.name}" for folder in folders]
