"""The model as a function of images alone, traced: weights, slots and feedback are part of it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from cocanet.config import CocaNetConfig, Preset
from cocanet.models.coca_net import CocaNet
from cocanet.segment.exported import INPUT, features_name, parts_name
from cocanet.segment.levels import level_masks

EXAMPLES = 3
"""Images of the batch that is traced; any number can be given later."""


def check_exportable(preset: Preset, name: str) -> CocaNetConfig:
    """Refuse what no graph can carry."""
    model = preset.model
    if not isinstance(model, CocaNetConfig):
        raise ValueError(f"coca export carries a coca-net; {name} is a {model.kind}")
    if model.anchors == "random":
        raise ValueError(
            f"a graph finds the same in an image every time, and {name} draws its anchors at random (RAS); "
            "export weights of a preset without -ras"
        )
    return model


class FromImages(nn.Module):
    """A COCA-Net's outputs by name, in a fixed order."""

    def __init__(self, model: CocaNet, names: Sequence[str]) -> None:
        super().__init__()
        self.model, self.names = model, tuple(names)

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> tuple[Tensor, ...]:
        found = self.model.encode(images)
        outputs = {"masks": found.masks, "slots": found.slots, "in_use": found.in_use}
        for level in range(1, len(found.levels)):
            parts = level_masks(found, level, self.model.config.image_size)
            outputs |= {parts_name(level): parts.masks, features_name(level): parts.vectors}
        if "reconstruction" in self.names:
            painting = self.model.paint(found, images)
            outputs |= {"decoder_masks": painting.masks, "reconstruction": painting.mixture.clamp(0, 1)}
        return tuple(outputs[name] for name in self.names)


@torch.no_grad()
def trace(model: CocaNet, names: Sequence[str]) -> torch.export.ExportedProgram:
    """The model as a program of torch's own operators, for batches of any size."""
    examples = torch.rand(EXAMPLES, 3, *model.config.image_size, generator=torch.Generator().manual_seed(0))
    batch = torch.export.Dim("batch", min=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.export.export(
            FromImages(model, names).eval(), (examples,), dynamic_shapes={INPUT: {0: batch}}, strict=False
        )
