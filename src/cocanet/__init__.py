"""cocanet: discover objects in images without labels, with COCA-Net."""

from cocanet import presets
from cocanet.models.build import build
from cocanet.models.coca_net import CocaNet
from cocanet.models.output import Output

__all__ = ["CocaNet", "Output", "build", "presets"]
