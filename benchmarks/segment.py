"""`python -m benchmarks.segment`: time of segmenting compared with the encoder alone, from memory and from files."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import numpy as np
import torch
import tyro
from PIL import Image
from rich.console import Console
from rich.table import Table

from benchmarks import direct
from benchmarks.measure import duration
from cocanet import presets
from cocanet.models.build import build
from cocanet.models.coca_net import as_coca_net
from cocanet.predict.inputs import find_images
from cocanet.predict.segment_many import segment_many
from cocanet.predict.segment_settings import OutputSettings
from cocanet.predict.segmenter import Segmenter

SUBJECTS = (("tetrominoes", 32), ("multi-dsprites", 8))
FOLDER = 4
"""Batches of files in the folder; reading and writing run in parallel with the model."""


@dataclass(frozen=True)
class Cost:
    """Medians, in seconds for one batch of images at the model's size."""

    encoder: float
    segment: float
    """Labels, slots and geometry from arrays in memory."""
    folder: float
    """The same from PNG files to all output files of `coca segment`."""
    direct: float
    """The encoder as a transcription of the paper's equations."""


@dataclass(frozen=True)
class Benchmark:
    """Compare segmenting with the encoder alone, on random images of the model's own size."""

    threads: int = 2
    repeats: int = 5


def measure(preset: str, batch: int, repeats: int) -> Cost:
    """Time all four in turn, so that other load on the machine affects all of them."""
    made = presets.PRESETS[preset]()
    segmenter = Segmenter(build(made, seed=0), made)
    pixels = np.random.default_rng(0).integers(0, 256, (batch, *made.model.image_size, 3), dtype=np.uint8)
    images = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255
    with TemporaryDirectory() as scratch:
        folder = Path(scratch, "in")
        folder.mkdir()
        for number in range(FOLDER * batch):
            Image.fromarray(pixels[number % batch]).save(folder / f"{number}.png")
        inputs = find_images([folder], Path(scratch, "out"))
        output = OutputSettings(Path(scratch, "out"), overwrite=True, batch=batch, sheet=0)
        calls: dict[str, Callable[[], object]] = {
            "encoder": lambda: encode(segmenter, images),
            "segment": lambda: [found.segments for found in segmenter.each(pixels, batch_size=batch)],
            "folder": lambda: segment_many(segmenter, inputs, output),
            "direct": lambda: encode_directly(segmenter, images),
        }
        for call in calls.values():
            call()
        times = [{name: duration(call) for name, call in calls.items()} for _ in range(repeats)]
    seconds = {name: statistics.median(time[name] for time in times) for name in calls}
    return Cost(**{**seconds, "folder": seconds["folder"] / FOLDER})


@torch.inference_mode()
def encode(segmenter: Segmenter, images: torch.Tensor) -> torch.Tensor:
    model = as_coca_net(segmenter.model, "encoding")
    return model.encode(images).masks


@torch.inference_mode()
def encode_directly(segmenter: Segmenter, images: torch.Tensor) -> torch.Tensor:
    """The transcription up to slots and masks, without its decoder."""
    with mock.patch.object(direct, "_decode", lambda _, slots: slots):
        return direct.forward(as_coca_net(segmenter.model, "the direct transcription"), images).encoder_masks


def main() -> None:
    chosen = tyro.cli(Benchmark, prog="python -m benchmarks.segment")
    torch.set_num_threads(chosen.threads)
    title = f"Segmenting on a CPU, {chosen.threads} threads, milliseconds an image, medians of {chosen.repeats}"
    table = Table(title=title)
    for column in ("preset", "batch", "encoder", "segment", "", "folder", "", "direct encoder", ""):
        table.add_column(column, justify="left" if column == "preset" else "right")
    for preset, batch in SUBJECTS:
        cost = measure(preset, batch, chosen.repeats)
        cells = [f"{1000 * cost.encoder / batch:.1f}"]
        for seconds in (cost.segment, cost.folder, cost.direct):
            cells += [f"{1000 * seconds / batch:.1f}", f"{seconds / cost.encoder:.2f}×"]
        table.add_row(preset, str(batch), *cells)
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
