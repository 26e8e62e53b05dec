"""The facts that belong beside every score: images, training, decoder, and whether masks were refined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cocanet.config import (
    AttentionConfig,
    BoQsaConfig,
    CocaNetConfig,
    FeatureBackboneConfig,
    GenesisV2Config,
    Preset,
    Reconstruction,
    Stage,
)
from cocanet.config.checks import by
from cocanet.config.features import LABELS
from cocanet.config.training import LossConfig
from cocanet.words import plural

Source = Literal["generated", "published", "own"]
"""Scenes of our generators, images of a published data set, or the user's own images."""
KINDS: dict[Source, str] = {"generated": "generated scene", "published": "published image", "own": "image"}
PREDICTED = "masks as the network predicts them"
REFINED = "encoder masks refined after the network"


@dataclass(frozen=True)
class Provenance:
    """What a score was measured on, and with which model."""

    images: str
    """How many images of which kind, and their hash."""
    training: str
    """Losses and stages."""
    decoder: str
    masks: str
    """As the network predicts them, or refined."""


def provenance(preset: Preset, source: Source, images: int, sha256: str, *, refined: bool) -> Provenance:
    """The facts about an evaluation."""
    tested = f"{plural(images, KINDS[source])}, sha256 {sha256}"
    return Provenance(tested, training(preset), decoder(preset), REFINED if refined else PREDICTED)


def training(preset: Preset) -> str:
    """The losses of a run, stage by stage."""
    stages = [_stage(preset, stage) for stage in preset.train.stages]
    return stages[0] if len(stages) == 1 else f"{len(stages)} stages: " + "; ".join(stages)


def _stage(preset: Preset, stage: Stage) -> str:
    losses = " + ".join(_loss(preset, loss) for loss in stage.losses)
    size = f" at {by(stage.image_size)}" if stage.image_size not in (None, preset.model.image_size) else ""
    trained = f", {' and '.join(stage.trains)} only" if stage.trains else ""
    share = f"{stage.share:.0%} " if stage.share < 1 else ""
    return f"{share}{losses}{size}{trained}"


def _loss(preset: Preset, loss: LossConfig) -> str:
    weight = "" if loss.weight == 1 else f"{loss.weight:g} × "
    if not isinstance(loss, Reconstruction):
        return f"{weight}{loss.kind}"
    pixels = "" if loss.pixels == 1 else f" of {100 * loss.pixels:g}% of the pixels"
    return f"{weight}{_own_loss(preset)}{pixels}"


def _own_loss(preset: Preset) -> str:
    """The loss that `Reconstruction` stands for."""
    backbone = getattr(preset.model, "backbone", None)
    if isinstance(backbone, FeatureBackboneConfig):
        labels = LABELS.get(backbone.features)
        return f"reconstruction of features of {backbone.features}" + f", which was trained {labels}" * bool(labels)
    if preset.has_token_decoder:
        return "token likelihood"
    return "image likelihood and KL divergence" if isinstance(preset.model, GenesisV2Config) else "reconstruction"


def decoder(preset: Preset) -> str:
    """The decoder, and what its masks are."""
    model = preset.model
    if isinstance(model, CocaNetConfig):
        return model.decoder.about
    if isinstance(model, AttentionConfig) and model.decoder is not None:
        return model.decoder.about
    return model.tokens.about if isinstance(model, BoQsaConfig) and model.tokens else "spatial broadcast decoder"
