"""The table of scores: what each is called, how it is written, and what it needs. A new score joins here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

EMPTY_ARI, EMPTY_COVERING = 1.0, 0.0
"""What the paper's code gives an image without foreground."""


@dataclass(frozen=True)
class Score:
    """A number that every image gets, and a data set its mean."""

    name: str
    title: str
    digits: int = 3
    """After the point, in tables."""
    labelled: bool = True
    """Whether it needs true labels."""
    foreground: bool = False
    """Whether an image without foreground has none."""
    empty: float = EMPTY_COVERING
    """What the paper's code gives an image without foreground."""
    better: Literal["higher", "lower"] = "higher"


def _of_masks(side: str) -> tuple[Score, ...]:
    return (
        Score(f"{side}_ari_fg", f"{side} ARI-FG", foreground=True, empty=EMPTY_ARI),
        Score(f"{side}_msc_fg", f"{side} mSC-FG", foreground=True),
        Score(f"{side}_ari", f"{side} ARI", empty=EMPTY_ARI),
        Score(f"{side}_msc", f"{side} mSC"),
    )


def _overlaps(side: str) -> tuple[Score, ...]:
    return (
        Score(f"{side}_iou", f"{side} IoU", foreground=True),
        Score(f"{side}_dice", f"{side} Dice", foreground=True),
        Score(f"{side}_iou_both", f"{side} IoU with background", foreground=True),
        Score(f"{side}_dice_both", f"{side} Dice with background", foreground=True),
    )


PAPER = (
    *_of_masks("decoder"),
    *_of_masks("encoder"),
    Score("mse", "MSE", digits=4, labelled=False, better="lower"),
)
"""The nine of the paper's tables (Sec. 4.2)."""
OVERLAP = (*_overlaps("encoder"), *_overlaps("decoder"))
"""The slot that fits the foreground best, and the mean of that and of the slot that fits the background best: for
images of one thing on a background, where ARI-FG says little."""
USE = (
    Score("decoder_slots", "slots in decoder masks", digits=2, labelled=False),
    Score("encoder_slots", "slots in encoder masks", digits=2, labelled=False),
    Score("slots", "slots", digits=2, labelled=False),
)
"""Slots that own a pixel in the masks of either side, and slots that the model gave the image."""

TABLE = {score.name: score for score in (*PAPER, *OVERLAP, *USE)}
SCORES = tuple(score.name for score in PAPER)
OVERLAPS = tuple(score.name for score in OVERLAP)
SLOTS = tuple(score.name for score in USE)
OF_MASKS = tuple(score.name.removeprefix("encoder_") for score in (*_overlaps("encoder"), *_of_masks("encoder")))
"""What any masks have, whichever side they are of."""


def title(name: str) -> str:
    """What a score is called; of masks of neither side without a side."""
    return TABLE[f"encoder_{name}"].title.removeprefix("encoder ") if name in OF_MASKS else TABLE[name].title


def text(name: str, value: float | None, deviation: float | None = None) -> str:
    """A score as tables have it; a dash where there is none."""
    if value is None:
        return "–"
    digits = TABLE[name].digits if name in TABLE else 3
    return f"{value:.{digits}f}" + ("" if deviation is None else f" ± {deviation:.{digits}f}")
