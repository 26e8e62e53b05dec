"""`export_model`: trace, write, compare with torch, and only then move the file to its place."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch

from cocanet.config.slots import preset_with_slots
from cocanet.export.export_settings import SUFFIXES, ExportSettings
from cocanet.export.graph import FromImages, check_exportable, trace, write_onnx, write_program
from cocanet.export.parity import SYNTHETIC_TOLERANCE, Parity, Runner, compare, synthetic_images
from cocanet.files import check_folder_writable, writing
from cocanet.io.trained import Checkpoint, open_model
from cocanet.models.coca_net import as_coca_net
from cocanet.predict.onnx_segmenter import ExportMetadata, OnnxSegmenter, describe_outputs
from cocanet.progress import Progress

T = TypeVar("T")


@dataclass(frozen=True)
class Export:
    """A file that was written and compared with torch."""

    path: Path
    bytes: int
    metadata: ExportMetadata
    parity: Parity


def export_model(
    source: str | Path,
    settings: ExportSettings | None = None,
    *,
    checkpoint: Checkpoint = "last",
    progress: Progress | None = None,
) -> Export:
    """Write a trained COCA-Net for another runtime; ValueError, and no file, if its predictions differ there."""
    settings, progress = settings or ExportSettings(), progress or Progress()
    trained = open_model(source, checkpoint=checkpoint)
    check_exportable(trained.preset, str(source))
    trained = trained.as_preset(preset_with_slots(trained.preset, settings.slots, settings.dynamic))
    path = settings.path(trained.path.parent.name if Path(source).is_dir() else str(source))
    check_folder_writable(path.parent)
    model = as_coca_net(trained.model, "exporting")
    outputs = describe_outputs(model.config, decoder=settings.decoder)
    metadata = ExportMetadata(trained.preset, outputs, trained.notes, Path(source).name, settings.refine)
    progress.say(f"tracing {trained.preset.name}, which takes a minute or two")
    temporary = path.with_name(f"{path.stem}.{os.getpid()}.tmp{SUFFIXES[settings.format]}")
    try:
        program = _one_line_errors(trace, model, metadata)
        write = write_onnx if settings.format == "onnx" else write_program
        with writing(path):
            _one_line_errors(write, temporary, program, metadata)
        reference = FromImages(model, ("masks", "slots"), refined=settings.refine)
        images = synthetic_images(model.config.image_size, settings.images)
        parity = compare(reference, _runner(temporary, metadata), images, SYNTHETIC_TOLERANCE)
        if not parity.holds:
            raise ValueError(f"{path} is not written: {parity}; expected at most {SYNTHETIC_TOLERANCE:g}")
        with writing(path):
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return Export(path, path.stat().st_size, metadata, parity)


def _one_line_errors(step: Callable[..., T], *arguments: object) -> T:
    """Run a step of torch's translators; of their long messages only the first line is useful."""
    try:
        return step(*arguments)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ValueError(f"torch {torch.__version__} could not export this model: {reason}") from error


def _runner(path: Path, metadata: ExportMetadata) -> Runner:
    if path.suffix == SUFFIXES["onnx"]:
        return OnnxSegmenter(path).run
    # Only ever a file that was just written here: torch.export.load trusts its input.
    program = torch.export.load(path).module()

    @torch.inference_mode()
    def run(images: np.ndarray) -> dict[str, np.ndarray]:
        outputs = program(torch.from_numpy(images))
        return {name: value.numpy() for name, value in zip(metadata.outputs, outputs, strict=True)}

    return run
