"""cocanet: discover objects in images without labels, with COCA-Net."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cocanet import presets
    from cocanet.models.build import build
    from cocanet.models.coca_net import CocaNet
    from cocanet.models.output import Output
    from cocanet.predict import load
    from cocanet.predict.prediction import Segmentation
    from cocanet.predict.segmenter import Segmenter

    __version__: str

__all__ = ["CocaNet", "Output", "Segmentation", "Segmenter", "__version__", "build", "load", "presets"]

_HOMES = {
    "build": "cocanet.models.build",
    "load": "cocanet.predict",
    "CocaNet": "cocanet.models.coca_net",
    "Output": "cocanet.models.output",
    "Segmentation": "cocanet.predict.prediction",
    "Segmenter": "cocanet.predict.segmenter",
}


def __getattr__(name: str) -> Any:
    # On first use only: torch takes seconds to load, and `coca --help` or a scene generator's workers never need it.
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name == "presets":
        return import_module("cocanet.presets")
    if name == "__version__":
        from importlib.metadata import version

        return version("cocanet")
    raise AttributeError(f"module 'cocanet' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
