"""The paper's results: Tables 1 and 2 and the four of the supplement, as printed.

The paper prints the encoder scores on Tetrominoes twice, with different deviations of mSC-FG and mSC. We take those of
the supplement, which has all nine scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from cocanet.config import CocaNetConfig, DataConfig, FeatureBackboneConfig, ModelConfig
from cocanet.data.readers import PHOTOGRAPHS
from cocanet.metrics.table import SCORES

FLOWERS17 = "flowers17"
"""Not a data set of the paper: see `data_set_of_recipe`."""
TITLES = {
    "genesis-v2": "GENESIS-v2",
    "inv-sa": "INV-SA",
    "bo-qsa": "BO-QSA",
    "coca-net": "COCA-Net",
    "coca-net-ras": "COCA-Net-RAS",
    "coca-net-dyna": "COCA-Net-Dyna",
}


@dataclass(frozen=True)
class PaperScore:
    """A score as printed; the deviation is None for a single seed."""

    mean: float
    deviation: float | None
    digits: int

    def __str__(self) -> str:
        mean = f"{self.mean:.{self.digits}f}"
        return mean if self.deviation is None else f"{mean} ± {self.deviation:.{self.digits}f}"


@dataclass(frozen=True)
class PaperRow:
    """Results of a model on a data set, by the names of `SCORES`, or of `OVERLAPS` for photographs."""

    model: str
    data_set: str
    seeds: int
    scores: dict[str, PaperScore]
    slots: float | None = None
    """Average number of slots, where printed."""
    note: str = ""
    """A caveat for comparisons with this row."""


# Columns: data set, model, then the scores in the order of SCORES.
_THREE_SEEDS = """
tetrominoes     genesis-v2  0.33±0.47 0.17±0.10 0.03±0.04 0.27±0.03 0.13±0.18 0.13±0.05 0.02±0.02 0.24±0.02 0.004±0.000
tetrominoes     inv-sa      0.98±0.01 0.97±0.00 0.97±0.00 0.98±0.00 0.38±0.08 0.59±0.05 0.61±0.04 0.65±0.04 0.001±0.000
tetrominoes     bo-qsa      0.99±0.01 0.31±0.00 0.11±0.01 0.33±0.01 0.60±0.03 0.42±0.01 0.29±0.02 0.47±0.00 0.000±0.000
tetrominoes     coca-net    0.99±0.01 0.98±0.01 0.99±0.01 0.99±0.01 0.74±0.04 0.70±0.07 0.71±0.09 0.75±0.07 0.001±0.000
multi-dsprites  genesis-v2  0.80±0.03 0.58±0.04 0.71±0.02 0.66±0.03 0.60±0.02 0.15±0.02 0.04±0.01 0.22±0.01 0.007±0.000
multi-dsprites  inv-sa      0.90±0.00 0.84±0.01 0.71±0.35 0.84±0.05 0.68±0.04 0.47±0.00 0.41±0.26 0.53±0.06 0.001±0.000
multi-dsprites  bo-qsa      0.89±0.00 0.65±0.07 0.42±0.17 0.65±0.10 0.75±0.01 0.55±0.01 0.34±0.06 0.56±0.02 0.001±0.000
multi-dsprites  coca-net    0.95±0.00 0.91±0.01 0.84±0.19 0.91±0.03 0.96±0.01 0.95±0.01 0.98±0.00 0.96±0.00 0.002±0.000
objects-room    genesis-v2  0.86±0.01 0.57±0.03 0.11±0.00 0.38±0.01 0.67±0.07 0.18±0.02 0.13±0.00 0.23±0.00 0.003±0.000
objects-room    inv-sa      0.88±0.00 0.80±0.01 0.66±0.12 0.68±0.07 0.80±0.02 0.44±0.02 0.36±0.01 0.39±0.01 0.001±0.001
objects-room    bo-qsa      0.87±0.01 0.83±0.00 0.57±0.00 0.63±0.00 0.59±0.02 0.69±0.03 0.52±0.01 0.56±0.01 0.001±0.000
objects-room    coca-net    0.88±0.00 0.82±0.01 0.95±0.01 0.87±0.02 0.87±0.01 0.82±0.01 0.94±0.02 0.86±0.02 0.001±0.000
shapestacks     genesis-v2  0.83±0.01 0.70±0.01 0.87±0.00 0.77±0.01 0.54±0.04 0.47±0.03 0.60±0.04 0.58±0.03 0.003±0.000
shapestacks     inv-sa      0.65±0.13 0.64±0.07 0.12±0.02 0.55±0.05 0.55±0.11 0.37±0.04 0.09±0.01 0.36±0.04 0.004±0.002
shapestacks     bo-qsa      0.83±0.09 0.80±0.09 0.21±0.07 0.73±0.10 0.49±0.16 0.59±0.13 0.18±0.09 0.58±0.13 0.001±0.000
shapestacks     coca-net    0.91±0.01 0.85±0.01 0.31±0.09 0.79±0.01 0.82±0.02 0.85±0.01 0.25±0.04 0.78±0.01 0.006±0.003
clevr6          genesis-v2  0.43±0.10 0.18±0.00 0.08±0.01 0.21±0.00 0.17±0.24 0.07±0.05 0.05±0.07 0.16±0.01 0.004±0.000
clevr6          inv-sa      0.96±0.01 0.87±0.03 0.74±0.35 0.87±0.07 0.64±0.04 0.54±0.02 0.30±0.07 0.55±0.04 0.000±0.000
clevr6          bo-qsa      0.86±0.21 0.34±0.12 0.08±0.07 0.33±0.11 0.78±0.26 0.30±0.12 0.08±0.07 0.31±0.13 0.000±0.000
clevr6          coca-net    0.97±0.02 0.82±0.06 0.88±0.04 0.85±0.05 0.96±0.03 0.76±0.02 0.82±0.08 0.79±0.02 0.000±0.000
clevrtex        genesis-v2  0.22±0.08 0.10±0.00 0.02±0.04 0.14±0.00 0.00±0.00 0.04±0.00 0.00±0.00 0.15±0.00 0.009±0.000
clevrtex        inv-sa      0.60±0.12 0.35±0.13 0.21±0.11 0.38±0.12 0.53±0.11 0.28±0.08 0.14±0.05 0.31±0.06 0.009±0.003
clevrtex        bo-qsa      0.69±0.06 0.44±0.07 0.18±0.05 0.43±0.07 0.53±0.03 0.34±0.07 0.14±0.06 0.34±0.08 0.005±0.002
clevrtex        coca-net    0.76±0.02 0.54±0.03 0.50±0.06 0.57±0.03 0.44±0.03 0.39±0.03 0.39±0.03 0.45±0.03 0.008±0.001
"""

_ONE_SEED = """
objects-room    coca-net-ras   0.832 0.739 0.561 0.581 0.763 0.277 0.469 0.368 0.001
objects-room    coca-net       0.894 0.832 0.960 0.889 0.879 0.823 0.952 0.881 0.001
shapestacks     coca-net-ras   0.834 0.735 0.267 0.728 0.747 0.385 0.157 0.419 0.005
shapestacks     coca-net       0.916 0.857 0.230 0.782 0.843 0.865 0.209 0.772 0.004
clevr6          coca-net       0.982 0.881 0.929 0.900 0.975 0.756 0.849 0.795 0.000
clevr10         coca-net-dyna  0.978 0.840 0.911 0.859 0.966 0.741 0.846 0.773 0.001
shapestacks     coca-net-dyna  0.896 0.818 0.232 0.754 0.827 0.823 0.210 0.746 0.005
"""

# Columns: data set, model, IoU, Dice.
_OF_PHOTOGRAPHS = """
flowers  bo-qsa    0.6477 0.7603
flowers  coca-net  0.6482 0.7612
birds    bo-qsa    0.5565 0.7032
birds    coca-net  0.5778 0.7238
"""
_EITHER = (
    'The paper\'s IoU and Dice have "background segments included", and it does not say how: '
    "compare them with both of ours, of the best slot and with background."
)

_SLOTS = {("clevr10", "coca-net-dyna"): 7.49, ("shapestacks", "coca-net-dyna"): 5.35}

_MOST_OBJECTS = {"multi-dsprites": 5, "objects-room": 3, "shapestacks": 6, "clevr": 10, "clevrtex": 10}
_PUBLISHED_FILE = {"multi-dsprites": "grayscale", "objects-room": "train"}
"""Part of the file name of the paper's version, for data sets published in several versions."""


def _score(text: str) -> PaperScore:
    mean, _, deviation = text.partition("±")
    return PaperScore(float(mean), float(deviation) if deviation else None, len(mean.partition(".")[2]))


def _rows(table: str, seeds: int) -> dict[tuple[str, str], PaperRow]:
    rows = {}
    for line in table.strip().splitlines():
        data_set, model, *cells = line.split()
        scores = dict(zip(SCORES, map(_score, cells), strict=True))
        rows[model, data_set] = PaperRow(model, data_set, seeds, scores, _SLOTS.get((data_set, model)))
    return rows


def _photograph_rows(table: str) -> dict[tuple[str, str], PaperRow]:
    rows = {}
    for line in table.strip().splitlines():
        data_set, model, iou, dice = line.split()
        scores = {
            f"encoder_{name}{which}": _score(text)
            for which in ("", "_both")
            for name, text in (("iou", iou), ("dice", dice))
        }
        rows[model, data_set] = PaperRow(model, data_set, 1, scores, note=_EITHER)
    return rows


PAPER = _rows(_THREE_SEEDS, seeds=3)
"""Mean and deviation over three seeds, by model and data set: `PAPER["coca-net", "clevr6"].scores["mse"].mean`."""
PAPER_ONE_SEED = _rows(_ONE_SEED, seeds=1)
"""The ablations: one seed each, the same for a variant and the COCA-Net that it is compared with."""
PAPER_PHOTOGRAPHS = _photograph_rows(_OF_PHOTOGRAPHS)
"""Encoder masks on Birds and Flowers, one seed. Each number appears twice: the paper does not say which it is."""
PAPER_DATA_SETS = tuple(dict.fromkeys(data_set for _, data_set in PAPER))


def data_set_name(name: str, max_objects: int | None = None) -> str:
    """The paper's name of generated scenes: `clevr` with at most six objects is `clevr6`."""
    published = _MOST_OBJECTS.get(name)
    if name == "clevr" or max_objects not in (None, published):
        return f"{name}{max_objects or published}"
    return name


def data_set_of(data: DataConfig) -> str:
    """The name of a preset's data set."""
    return data_set_name(data.name, data.max_objects)


def data_set_of_recipe(recipe: Mapping[str, Any]) -> str | None:
    """The paper's data set that a store holds, generated or imported; None for any other.

    Flowers-17, which comes with masks, replaces the paper's Flowers-102.
    """
    if recipe.get("name") in (*PHOTOGRAPHS, FLOWERS17):
        return "flowers" if recipe["name"] == FLOWERS17 else str(recipe["name"])
    names = [_letters(str(recipe.get(key) or "")) for key in ("set", "name", "file")]
    # Longest first: clevrtex begins like clevr.
    for name in sorted(("tetrominoes", *_MOST_OBJECTS), key=len, reverse=True):
        if any(known.startswith(_letters(name)) for known in names):
            six = name == "clevr" and str(recipe.get("split") or "").startswith("clevr6")
            found = data_set_name(name, 6 if six else recipe.get("max_objects"))
            published = "file" not in recipe or _PUBLISHED_FILE.get(name, "") in recipe["file"]
            return found if published and found in (*PAPER_DATA_SETS, "clevr10") else None
    return None


FROM_SCRATCH = "The paper's model is trained from scratch, without pretrained features."


def paper_row(model: ModelConfig, data_set: str | None) -> PaperRow | None:
    """The paper's row for a model on a data set, if it has one.

    Dynamic slots have only the row of the variant; random anchors fall back on COCA-Net's.
    """
    if data_set is None:
        return None
    row = PAPER.get((model.kind, data_set)) or PAPER_PHOTOGRAPHS.get((model.kind, data_set))
    if row is not None and isinstance(getattr(model, "backbone", None), FeatureBackboneConfig):
        row = replace(row, note=f"{row.note} {FROM_SCRATCH}".strip())
    if not isinstance(model, CocaNetConfig):
        return row
    if model.dynamic:
        # COCA-Net's own row is for a known number of slots.
        return PAPER_ONE_SEED.get(("coca-net-dyna", data_set))
    if model.anchors == "random":
        return PAPER_ONE_SEED.get(("coca-net-ras", data_set), row)
    return row


def notes_beside(row: PaperRow, data_name: str) -> list[str]:
    """Caveats for a comparison of the paper's row with scores on the data of this name."""
    other = ["The paper's flowers are those of Flowers-102."] if data_name == FLOWERS17 else []
    return [*([row.note] if row.note else []), *other]


def _letters(text: str) -> str:
    return "".join(letter for letter in text.lower() if letter.isalnum())
