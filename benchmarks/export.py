"""`python -m benchmarks.export`: predictions and speed of exported files compared with torch."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
import tyro
from rich.console import Console
from rich.table import Table

from benchmarks.measure import duration
from cocanet.config import BackboneConfig, CocaNetConfig, ConvConfig, DataConfig, DecoderConfig, LevelConfig, Preset
from cocanet.data.generators import SCENE_NAMES, make_scenes
from cocanet.export.export_settings import ExportSettings
from cocanet.export.exporting import export_model
from cocanet.export.graph import FromImages
from cocanet.export.parity import Parity, compare, synthetic_images
from cocanet.io.trained import open_model, shipped_names
from cocanet.io.weights import write_weights
from cocanet.models.build import build
from cocanet.models.coca_net import CocaNet, as_coca_net
from cocanet.predict.onnx_segmenter import OnnxSegmenter

RANDOM = "three levels"
"""Name of untrained weights with three levels on images of 64×48 pixels."""
SEED = 1_000_003


@dataclass(frozen=True)
class Benchmark:
    """Compare torch and onnxruntime on scenes like those of each model's training."""

    weights: tuple[str, ...] = (*shipped_names(), RANDOM)
    """Shipped weights, and `three levels` for an untrained model on images that are not square."""
    images: int = 500
    batch: int = 16
    repeats: int = 7
    """Timings of each; the table has medians."""
    threads: int = 1
    folder: Path | None = None
    """Keep exported files here, and use those of an earlier call."""


@dataclass(frozen=True)
class Row:
    """One model."""

    megabytes: float
    parity: Parity
    torch: dict[int, float]
    """Images a second by batch size."""
    onnx: dict[int, float]


def three_levels() -> CocaNetConfig:
    return CocaNetConfig(
        image_size=(64, 48),
        dim=32,
        backbone=BackboneConfig(channels=32, kernel=3),
        levels=(
            LevelConfig((4, 4), clusters=3, temperature=1.0, depth=1),
            LevelConfig((4, 3), clusters=4, temperature=1.0, depth=1),
            LevelConfig((4, 4), clusters=6, temperature=1.0, depth=2),
        ),
        decoder=DecoderConfig((64, 48), (ConvConfig(4, 3),)),
    )


def measure(name: str, chosen: Benchmark, folder: Path) -> Row:
    source = name
    if name == RANDOM:
        preset = Preset(RANDOM, three_levels(), DataConfig("tetrominoes"))
        source = str(folder / f"{RANDOM}.safetensors")
        write_weights(Path(source), preset, build(preset, seed=0).state_dict(), {})
    file = folder / f"{name}.onnx"
    if not file.exists():
        export_model(source, ExportSettings(out=file))
    trained = open_model(source)
    model, exported = as_coca_net(trained.model, "exporting"), OnnxSegmenter(file)
    images = scenes(trained.preset, chosen.images)
    parity = compare(FromImages(model, ("masks", "slots")), exported.run, images)
    rates = [rate(model, exported, images[:batch], chosen.repeats) for batch in (1, chosen.batch)]
    batches = (1, chosen.batch)
    return Row(
        file.stat().st_size / 1e6,
        parity,
        {batch: pair[0] for batch, pair in zip(batches, rates, strict=True)},
        {batch: pair[1] for batch, pair in zip(batches, rates, strict=True)},
    )


def scenes(preset: Preset, count: int) -> np.ndarray:
    """Scenes like those of the training at the model's size; synthetic images if there is no generator for them."""
    (height, width), data = preset.model.image_size, preset.data
    name = "clevr" if data.name == "clevr6" else data.name
    if name not in SCENE_NAMES or height != width:
        return synthetic_images(preset.model.image_size, count, SEED)
    source = make_scenes(name, count=count, seed=SEED, max_objects=data.max_objects, size=_size(name, height))
    images = np.stack([source[index].image for index in range(count)])
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2), dtype=np.float32) / np.float32(255)


def _size(name: str, side: int) -> int | None:
    """Only rendered scenes come in any size."""
    return None if name in ("tetrominoes", "multi-dsprites") else side


def rate(model: CocaNet, exported: OnnxSegmenter, images: np.ndarray, repeats: int) -> tuple[float, float]:
    """Images per second of torch and of onnxruntime, timed in turn."""
    batch, wanted = torch.from_numpy(images), ["masks", "slots", "in_use"]
    with torch.inference_mode():
        pairs = [
            (duration(lambda: model.encode(batch)), duration(lambda: exported.run(images, wanted)))
            for _ in range(repeats + 1)
        ][1:]
    return tuple(len(images) / statistics.median(times) for times in zip(*pairs, strict=True))  # type: ignore[return-value]


def main() -> None:
    chosen = tyro.cli(Benchmark, prog="python -m benchmarks.export")
    torch.set_num_threads(chosen.threads)
    title = f"torch and onnxruntime, {chosen.threads} thread(s), images/s are medians of {chosen.repeats}"
    table = Table(title=title)
    batches = (1, chosen.batch)
    for column in ("weights", "MB", "images", "masks", "slots", "labels", "reordered", "undecided"):
        table.add_column(column, justify="left" if column == "weights" else "right")
    for batch in batches:
        for column in (f"torch, batch {batch}", "onnx", ""):
            table.add_column(column, justify="right")
    with TemporaryDirectory() as scratch:
        folder = chosen.folder or Path(scratch)
        for name in chosen.weights:
            row = measure(name, chosen, folder)
            parity = row.parity
            cells = [f"{row.megabytes:.1f}", str(parity.images), f"{parity.masks:.0e}", f"{parity.slots:.0e}"]
            cells += map(str, (parity.labels, parity.reordered, parity.undecided))
            for batch in batches:
                ours, theirs = row.torch[batch], row.onnx[batch]
                cells += [f"{ours:.1f}", f"{theirs:.1f}", f"{theirs / ours:.2f}×"]
            table.add_row(name, *cells)
    Console(width=130).print(table)


if __name__ == "__main__":
    main()
