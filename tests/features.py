"""Models of pretrained features for tests: random weights in the cache's folder, and a timm without torchvision."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import safetensors.torch
import torch

from cocanet.config import CocaNetConfig, FeatureBackboneConfig, FeatureDecoderConfig, LevelConfig
from cocanet.files import cache_folder
from cocanet.models.pretrained import load_network

TINY_VIT = "vit_tiny_patch16_224"
BACKBONE = FeatureBackboneConfig("efficientnet-lite0", grid=(8, 8), input_size=(64, 64), strides=(16, 32))
DECODER = FeatureDecoderConfig(hidden=16, layers=2, octaves=2)


def feature_net(**changes: Any) -> CocaNetConfig:
    """COCA-Net on a grid of 8×8 cells, for images of 32×32 pixels."""
    levels = (LevelConfig((4, 4), 2, 1.0, 1), LevelConfig((2, 2), 3, 1.0, 1))
    return replace(CocaNetConfig((32, 32), 16, BACKBONE, levels, DECODER), **changes)


def published_weights(seed: int = 0) -> dict[str, torch.Tensor]:
    """Random weights by the names and shapes of EfficientNet-Lite0's file, up to stride 32."""
    draw = torch.Generator().manual_seed(seed)
    weights: dict[str, torch.Tensor] = {}

    def add(conv: str, norm: str, outputs: int, inputs: int, side: int) -> None:
        scale = (inputs * side**2) ** -0.5
        weights[f"{conv}.weight"] = 2 * scale * torch.randn(outputs, inputs, side, side, generator=draw)
        for name, low, high in (
            ("weight", 0.5, 1.5),
            ("bias", -0.5, 1),
            ("running_mean", -0.5, 0.5),
            ("running_var", 0.5, 2),
        ):
            weights[f"{norm}.{name}"] = low + (high - low) * torch.rand(outputs, generator=draw)

    add("_conv_stem", "_bn0", 32, 3, 3)
    number, channels = 0, 32
    rows = ((3, 1, 16, 1), (3, 6, 24, 2), (5, 6, 40, 2), (3, 6, 80, 3), (5, 6, 112, 3), (5, 6, 192, 4))
    for side, expansion, outputs, blocks in rows:
        for _ in range(blocks):
            name, wide = f"_blocks.{number}", channels * expansion
            if expansion > 1:
                add(f"{name}._expand_conv", f"{name}._bn0", wide, channels, 1)
            add(f"{name}._depthwise_conv", f"{name}._bn1", wide, 1, side)
            add(f"{name}._project_conv", f"{name}._bn2", outputs, wide, 1)
            number, channels = number + 1, outputs
    return weights


def write_random_weights(name: str, weights: dict[str, torch.Tensor]) -> Path:
    """Put weights where a user without a network puts them."""
    path = cache_folder() / "features" / f"{name}.safetensors"
    path.parent.mkdir(parents=True, exist_ok=True)
    safetensors.torch.save_file({key: tensor.contiguous() for key, tensor in weights.items()}, path)
    load_network.cache_clear()
    return path


@contextmanager
def without_torchvision() -> Iterator[None]:
    """An empty torchvision: timm imports it for transforms of images, which no model needs."""
    finder = _StandIn()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.split(".")[0] in ("torchvision", "timm")]:
            del sys.modules[name]


class _AnyName(type):
    def __getattr__(cls, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return f"{cls.__name__}.{name}"


class _AnyClass(ModuleType):
    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return _AnyName(name, (torch.nn.Module,), {})


class _StandIn(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name.split(".")[0] != "torchvision":
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _AnyClass(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass
