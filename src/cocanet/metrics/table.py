"""The table of scores: title, digits and needs of each. A new score is added here."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import Literal

EMPTY_ARI, EMPTY_COVERING = 1.0, 0.0
"""Scores of an image without foreground in the paper's code."""


@dataclass(frozen=True)
class Score:
    """A number for each image; a data set has the mean."""

    name: str
    title: str
    digits: int = 3
    """Decimals in tables."""
    labelled: bool = True
    """Whether it needs true labels."""
    foreground: bool = False
    """Whether an image without foreground has none."""
    empty: float = nan
    """The paper's score of an image without foreground; NaN if the paper has none."""
    better: Literal["higher", "lower"] = "higher"


def _of_masks(side: str) -> tuple[Score, ...]:
    return (
        Score(f"{side}_ari_fg", f"{side} ARI-FG", foreground=True, empty=EMPTY_ARI),
        Score(f"{side}_msc_fg", f"{side} mSC-FG", foreground=True, empty=EMPTY_COVERING),
        Score(f"{side}_ari", f"{side} ARI"),
        Score(f"{side}_msc", f"{side} mSC"),
    )


def _overlaps(side: str) -> tuple[Score, ...]:
    return (
        Score(f"{side}_iou", f"{side} IoU", foreground=True),
        Score(f"{side}_dice", f"{side} Dice", foreground=True),
        Score(f"{side}_iou_both", f"{side} IoU with background", foreground=True),
        Score(f"{side}_dice_both", f"{side} Dice with background", foreground=True),
    )


def _discovery(side: str) -> tuple[Score, ...]:
    return (
        Score(f"{side}_precision_fg", f"{side} precision-FG", foreground=True),
        Score(f"{side}_recall_fg", f"{side} recall-FG", foreground=True),
        Score(f"{side}_pq", f"{side} PQ"),
        Score(f"{side}_corloc", f"{side} CorLoc", foreground=True),
    )


PAPER = (
    *_of_masks("decoder"),
    *_of_masks("encoder"),
    Score("mse", "MSE", digits=4, labelled=False, better="lower"),
)
"""The nine of the paper's tables (Sec. 4.2)."""
OVERLAP = (*_overlaps("encoder"), *_overlaps("decoder"))
"""Overlap of the best slot with the foreground, and its mean with that of the background: for images of one object,
where ARI-FG says little."""
DISCOVERY = (*_discovery("encoder"), *_discovery("decoder"))
"""Scores of object discovery in photographs. The field's mBO over instances is mSC-FG under another name."""
USE = (
    Score("decoder_slots", "slots in decoder masks", digits=2, labelled=False),
    Score("encoder_slots", "slots in encoder masks", digits=2, labelled=False),
    Score("slots", "slots", digits=2, labelled=False),
)
"""Slots that own a pixel in decoder and encoder masks, and slots that the model gave the image."""

TABLE = {score.name: score for score in (*PAPER, *OVERLAP, *DISCOVERY, *USE)}
SCORES = tuple(score.name for score in PAPER)
OVERLAPS = tuple(score.name for score in OVERLAP)
DISCOVERIES = tuple(score.name for score in DISCOVERY)
SLOTS = tuple(score.name for score in USE)
OF_MASKS = tuple(
    score.name.removeprefix("encoder_")
    for score in (*_overlaps("encoder"), *_of_masks("encoder"), *_discovery("encoder"))
)
"""Scores of any masks, without `encoder_` or `decoder_`."""


def title(name: str) -> str:
    """Title of a score of `TABLE` or `OF_MASKS`."""
    return TABLE[f"encoder_{name}"].title.removeprefix("encoder ") if name in OF_MASKS else TABLE[name].title


def text(name: str, value: float | None, deviation: float | None = None) -> str:
    """A score as text; a dash for None."""
    if value is None:
        return "–"
    digits = TABLE[name].digits if name in TABLE else 3
    return f"{value:.{digits}f}" + ("" if deviation is None else f" ± {deviation:.{digits}f}")
