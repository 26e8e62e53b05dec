"""A traced model as a file: an ONNX graph, or an archive of `torch.export`."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from cocanet.extras import extra
from cocanet.segment.exported import INPUT, KEY, Head

NOISY = ("onnx_ir", "onnxscript", "torch.onnx")


def write_onnx(path: Path, program: torch.export.ExportedProgram, head: Head) -> None:
    """Translate a traced model, and write it with what it says of itself.

    Each node knows where in whose source it was traced, half of the file and nobody else's business: it forgets that.
    """
    onnx_ir = extra("onnx_ir", "onnx", "models are written as ONNX")
    extra("onnxscript", "onnx", "models are translated")
    with _quietly():
        made: Any = torch.onnx.export(
            program, dynamo=True, verbose=False, input_names=[INPUT], output_names=list(head.outputs)
        )
    model = made.model
    for graph in (model.graph, *model.functions.values()):
        for node in onnx_ir.traversal.RecursiveGraphIterator(graph):
            node.metadata_props.clear()
    model.metadata_props[KEY] = head.to_json()
    model.producer_name, _, model.producer_version = head.program.partition(" ")
    made.save(path)


def write_program(path: Path, program: torch.export.ExportedProgram, head: Head) -> None:
    """Write a traced model as `torch.export.load` reads it; `extra_files` has what it says of itself."""
    for graph in program.graph_module.modules():
        for node in graph.graph.nodes if isinstance(graph, torch.fx.GraphModule) else ():
            node.meta.pop("stack_trace", None)
    with _quietly():
        torch.export.save(program, path, extra_files={f"{KEY}.json": head.to_json()})


@contextmanager
def _quietly() -> Iterator[None]:
    """Without what the translators say to those who write translators."""
    loggers = [logging.getLogger(name) for name in NOISY]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
