"""The model as a traced function of images alone, written as an ONNX graph or as an archive of `torch.export`."""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from cocanet.config import CocaNetConfig, Preset, RefineConfig
from cocanet.extras import extra
from cocanet.models.coca_net import CocaNet
from cocanet.models.pretrained import pretrained_of
from cocanet.predict.onnx_segmenter import INPUT, KEY, ExportMetadata, features_name, masks_name
from cocanet.predict.segmenter import level_masks
from cocanet.refine import refine

EXAMPLES = 3
"""Images in the traced batch; the exported file takes batches of any size."""
NOISY = ("onnx_ir", "onnxscript", "torch.onnx")


def check_exportable(preset: Preset, name: str) -> CocaNetConfig:
    """Refuse models that have no graph."""
    model = preset.model
    if not isinstance(model, CocaNetConfig):
        raise ValueError(f"only a coca-net can be exported; {name} is a {model.kind}")
    if model.anchors == "random":
        raise ValueError(
            f"a graph is deterministic, but {name} draws its anchors at random (RAS); "
            "export weights of a preset without -ras"
        )
    return model


class FromImages(nn.Module):
    """A COCA-Net that returns outputs by name in a fixed order, with refined masks of objects if `refined`."""

    def __init__(self, model: CocaNet, names: Sequence[str], *, refined: bool = False) -> None:
        super().__init__()
        self.model, self.names, self.refined = model, tuple(names), refined
        # A frozen network is no part of the model; the graph has it.
        pretrained = pretrained_of(model)
        self.pretrained = None if pretrained is None else pretrained.network(torch.device("cpu"))

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> tuple[Tensor, ...]:
        encoding = self.model.encode(images)
        outputs = {"slots": encoding.slots, "in_use": encoding.in_use}
        outputs["masks"] = self._refine(encoding.masks, images, encoding.in_use)
        for level in range(1, len(encoding.levels)):
            masks, features = level_masks(encoding.levels, level, self.model.config.image_size)
            outputs |= {masks_name(level): masks, features_name(level): features}
        if "reconstruction" in self.names:
            decoded = self.model.decoder(encoding, images)
            outputs["decoder_masks"] = self._refine(decoded.masks, images, encoding.in_use)
            outputs["reconstruction"] = decoded.reconstruction.clamp(0, 1)
        return tuple(outputs[name] for name in self.names)

    def _refine(
        self, masks: Float[Tensor, "b k h w"], images: Float[Tensor, "b 3 h w"], in_use: Bool[Tensor, "b k"]
    ) -> Float[Tensor, "b k h w"]:
        return refine(masks, images, in_use, RefineConfig()) if self.refined else masks


@torch.no_grad()
def trace(model: CocaNet, metadata: ExportMetadata) -> torch.export.ExportedProgram:
    """The model as a program of torch operators, for batches of any size."""
    frozen = copy.deepcopy(model).requires_grad_(False)
    examples = torch.rand(EXAMPLES, 3, *model.config.image_size, generator=torch.Generator().manual_seed(0))
    batch = torch.export.Dim("batch", min=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.export.export(
            FromImages(frozen, list(metadata.outputs), refined=metadata.refined).eval(),
            (examples,),
            dynamic_shapes={INPUT: {0: batch}},
            strict=False,
        )


def write_onnx(path: Path, program: torch.export.ExportedProgram, metadata: ExportMetadata) -> None:
    """Translate a traced model to ONNX and write it with its metadata.

    Nodes carry the source lines and paths of their tracing, half of the file; these are removed.
    """
    onnx_ir = extra("onnx_ir", "onnx", "models are written as ONNX")
    extra("onnxscript", "onnx", "models are translated")
    with _quiet():
        translated: Any = torch.onnx.export(
            program, dynamo=True, verbose=False, input_names=[INPUT], output_names=list(metadata.outputs)
        )
    model = translated.model
    for graph in (model.graph, *model.functions.values()):
        for node in onnx_ir.traversal.RecursiveGraphIterator(graph):
            node.metadata_props.clear()
    for value in (*model.graph.inputs, *model.graph.outputs):
        value.shape = onnx_ir.Shape([side if isinstance(side, int) else "batch" for side in value.shape])
    model.metadata_props[KEY] = metadata.to_json()
    model.producer_name, _, model.producer_version = metadata.program.partition(" ")
    translated.save(path)


def write_program(path: Path, program: torch.export.ExportedProgram, metadata: ExportMetadata) -> None:
    """Write a traced model for `torch.export.load`, with its metadata in `extra_files`."""
    for graph in program.graph_module.modules():
        for node in graph.graph.nodes if isinstance(graph, torch.fx.GraphModule) else ():
            node.meta.pop("stack_trace", None)
    with _quiet():
        torch.export.save(program, path, extra_files={f"{KEY}.json": metadata.to_json()})


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the translators' warnings and log messages."""
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
