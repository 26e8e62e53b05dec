"""`export_model`: trace, write, compare with torch, and only then put the file in place."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch

from cocanet.config.slots import preset_with_slots
from cocanet.export.formats import write_onnx, write_program
from cocanet.export.graph import check_exportable, trace
from cocanet.export.parity import ROUGH, Parity, Runner, compare, pictures
from cocanet.export.settings import SUFFIXES, ExportSettings
from cocanet.files import check_folder_writable, writing
from cocanet.models.coca_net import as_coca_net
from cocanet.segment.exported import Head, describe_outputs
from cocanet.segment.onnx_segmenter import OnnxSegmenter
from cocanet.watch import Watcher
from cocanet.weights.trained import Checkpoint, Trained, open_model

T = TypeVar("T")


@dataclass(frozen=True)
class Export:
    """A file that was written and compared."""

    path: Path
    bytes: int
    head: Head
    parity: Parity


def export_model(
    source: str | Path,
    settings: ExportSettings | None = None,
    *,
    checkpoint: Checkpoint = "last",
    watcher: Watcher | None = None,
) -> Export:
    """Write a trained COCA-Net for another runtime; ValueError, and no file, if it does not find the same there."""
    settings, watcher = settings or ExportSettings(), watcher or Watcher()
    trained = _as_asked(open_model(source, checkpoint=checkpoint), str(source), settings)
    path = settings.path(trained.path.parent.name if Path(source).is_dir() else str(source))
    check_folder_writable(path.parent)
    model = as_coca_net(trained.model, "exporting")
    outputs = describe_outputs(model.config, decoder=settings.decoder)
    head = Head(trained.preset, outputs, trained.notes, Path(source).name)
    watcher.say(f"tracing {trained.preset.name}, which takes a minute or two")
    temporary = path.with_name(f"{path.stem}.{os.getpid()}.tmp{SUFFIXES[settings.format]}")
    try:
        program = _in_words(trace, model, list(head.outputs))
        write = write_onnx if settings.format == "onnx" else write_program
        with writing(path):
            _in_words(write, temporary, program, head)
        images = pictures(model.config.image_size, settings.images)
        parity = compare(model, _runner(temporary, head), images, ROUGH)
        if not parity.holds:
            raise ValueError(f"{path} is not written: {parity}; expected {ROUGH:g} at most, and hardly any rounding")
        with writing(path):
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return Export(path, path.stat().st_size, head, parity)


def _as_asked(trained: Trained, name: str, settings: ExportSettings) -> Trained:
    """The weights with the slots and the feedback that go into the file."""
    model = check_exportable(trained.preset, name)
    preset = preset_with_slots(trained.preset, settings.slots, settings.dynamic)
    if settings.feedback is not None:
        model = check_exportable(preset, name)
        preset = replace(preset, model=replace(model, feedback=replace(model.feedback, rounds=settings.feedback)))
    return trained.as_preset(preset)


def _in_words(step: Callable[..., T], *arguments: object) -> T:
    """Torch's translators say what they could not do in many lines, the first of which tells."""
    try:
        return step(*arguments)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ValueError(f"torch {torch.__version__} could not carry this model: {reason}") from error


def _runner(path: Path, head: Head) -> Runner:
    if path.suffix == SUFFIXES["onnx"]:
        return OnnxSegmenter(path).run
    # Only ever a file that was just written here: torch.export.load trusts what it reads.
    program = torch.export.load(path).module()

    @torch.inference_mode()
    def run(images: np.ndarray) -> dict[str, np.ndarray]:
        outputs = program(torch.from_numpy(images))
        return {name: value.numpy() for name, value in zip(head.outputs, outputs, strict=True)}

    return run
