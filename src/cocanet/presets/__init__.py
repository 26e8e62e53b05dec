"""Presets by name: the paper's, its variants, the fast recipe and the baselines."""

from __future__ import annotations

from cocanet.config import Preset
from cocanet.presets.baselines import BASELINES, MODELS
from cocanet.presets.fast import with_fast_recipe
from cocanet.presets.features import DATA_SETS as FEATURE_SETS
from cocanet.presets.features import FEATURES
from cocanet.presets.features import MODELS as FEATURE_MODELS
from cocanet.presets.paper import PRESETS, clevr6, clevrtex, multi_dsprites, objects_room, shapestacks, tetrominoes
from cocanet.presets.photographs import PHOTOGRAPHS, SLOTS, birds, flowers
from cocanet.presets.variants import (
    with_dilated_candidates,
    with_dynamic_slots,
    with_random_anchors,
)
from cocanet.words import unknown

__all__ = [
    "FEATURES",
    "FEATURE_MODELS",
    "FEATURE_SETS",
    "PHOTOGRAPHS",
    "PRESETS",
    "SLOTS",
    "VARIANTS",
    "birds",
    "clevr6",
    "clevrtex",
    "find",
    "flowers",
    "is_known",
    "multi_dsprites",
    "names",
    "objects_room",
    "shapestacks",
    "tetrominoes",
    "with_dilated_candidates",
    "with_dynamic_slots",
    "with_fast_recipe",
    "with_random_anchors",
]

PUBLISHED = PRESETS | PHOTOGRAPHS | BASELINES | FEATURES
VARIANTS = {
    "ras": with_random_anchors,
    "dyna": with_dynamic_slots,
    "dilated": with_dilated_candidates,
    "fast": with_fast_recipe,
}
"""Suffixes of a preset's name."""


def find(name: str) -> Preset:
    """The preset called `name`: a run of the paper (clevr6), a variant (clevr6-ras) or a baseline (inv-sa-clevr6)."""
    base, _, suffix = name.rpartition("-")
    if name in PUBLISHED:
        return PUBLISHED[name]()
    if suffix in VARIANTS and is_known(base):
        return VARIANTS[suffix](find(base))
    variants = [f"{preset}-{suffix}" for preset in PRESETS | PHOTOGRAPHS for suffix in VARIANTS]
    raise ValueError(unknown("preset", name, ["auto", *PUBLISHED, *variants], names()))


def is_known(name: str) -> bool:
    base, _, suffix = name.rpartition("-")
    return name in PUBLISHED or (suffix in VARIANTS and is_known(base))


def names() -> str:
    """All presets in a line, for people."""
    variants, baselines = (", ".join(words) for words in ([f"-{suffix}" for suffix in VARIANTS], MODELS))
    published = ", ".join((*PRESETS, *SLOTS, *FEATURE_SETS))
    return f"auto (your own images), {published}; variants end in {variants}; baselines begin with {baselines}"
