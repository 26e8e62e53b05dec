"""Small models for these tests: one that is real, and one whose answer is known."""

from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from cocanet.config import ConvConfig, DataConfig, DecoderConfig, LevelConfig, Preset
from cocanet.io.weights import write_weights
from cocanet.layers.coca import Clusters
from cocanet.models.build import build
from cocanet.models.coca_net import CocaNet
from cocanet.models.output import Encoding, Level
from cocanet.predict.segmenter import Segmenter
from tests.tiny import THREE


def preset(**changes) -> Preset:
    return Preset("small", replace(THREE, **changes), DataConfig("tetrominoes"))


def real(**changes) -> Segmenter:
    made = preset(**changes)
    return Segmenter(build(made, seed=3), made)


def weights_file(path: Path) -> Path:
    write_weights(path, preset(), build(preset(), seed=3).state_dict(), {"step": 7})
    return path


class ByColour(CocaNet):
    """Says of every pixel which of red, green and blue it is; the slots' vectors are 0, 1 and 2."""

    def __init__(self, size: tuple[int, int]) -> None:
        nn.Module.__init__(self)
        rows, columns = size
        self.config = replace(
            THREE,
            image_size=size,
            levels=(LevelConfig((rows, columns), 3, 1.0, 0),),
            decoder=DecoderConfig(size, (ConvConfig(4, 3),)),
        )

    def encode(self, images, limits=None):
        colour = nn.functional.one_hot(images.argmax(1), 3).permute(0, 3, 1, 2).float()
        vectors = torch.arange(3.0).view(1, 3, 1).expand(len(images), -1, -1)
        in_use = torch.ones(len(images), 3, dtype=torch.bool)
        clusters = Clusters(*[None] * 2, colour, *[None] * 4, in_use.unsqueeze(1))  # type: ignore[arg-type]
        level = Level(self.config.image_size, self.config.image_size, clusters)
        return Encoding(vectors, colour, in_use, (level,))


def by_colour(size: tuple[int, int]) -> Segmenter:
    model = ByColour(size)
    return Segmenter(model, Preset("by-colour", model.config, DataConfig("tetrominoes")))
