"""The card of weights that come with the package: what they are, what they score, and what that is worth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from cocanet.config import Preset
from cocanet.config.plain import first_difference, to_plain
from cocanet.data.readers import PHOTOGRAPHS
from cocanet.evaluation.result import Result
from cocanet.metrics.table import OVERLAPS, text, title
from cocanet.paper_scores import notes_beside, paper_row
from cocanet.presets import find

TERMS = {
    "birds": "CUB-200-2011, for non-commercial research and education by its publishers' terms",
    "flowers": "trained on Flowers-102, scored on Flowers-17; Oxford's VGG publishes both for research",
}
ON_PHOTOGRAPHS = """The paper does not say how long it trained on photographs; BO-QSA, whose protocol it follows, takes
250,000 steps of 128 images at 128×128 pixels."""
ON_SCENES = """The paper's scores are of the published images, ours of scenes that we generate after them. The paper
trained on 32,000,000 images, by reconstruction alone."""


class Shipped(NamedTuple):
    """All that a card says; nothing of it is typed but `remarks`."""

    name: str
    preset: Preset
    notes: Mapping[str, Any]
    result: Result
    real: Result | None
    """Scores of published records, where the others are of generated scenes."""
    remarks: str
    as_trained: bool
    """Whether evaluation is as in the run."""
    published: bool = False
    """Whether there is a picture of what they find in published images."""

    @property
    def photographs(self) -> bool:
        return self.preset.data.name in PHOTOGRAPHS


def card(shipped: Shipped) -> str:
    name, preset, notes, result = shipped.name, shipped.preset, shipped.notes, shipped.result
    minutes, provenance = notes["seconds"] / 60, result.provenance
    again = f"coca evaluate {name}" + " --data DIR" * shipped.photographs
    return f"""# Weights: {name}

`cocanet.load("{name}")`, `coca segment {name} PATH… --out DIR`

| | |
|---|---|
| preset | `{preset.name}`{overrides(preset)} |
| command | `{notes["command"]}` |
| commit | {notes["commit"]} |
| seed | {notes["seed"]}{_seeds(shipped)} |
| trained for | {notes["step"]:,} steps, {notes["images"]:,} images, {minutes:.0f} minutes on two CPU cores |
| losses | {provenance.losses} |
| decoder's masks | {provenance.decoder_masks} |
| at evaluation | {provenance.at_evaluation} |
{_images(shipped)}

{_scores(shipped)}
{_real(shipped)}{_yardsticks(result)}
{ON_PHOTOGRAPHS if shipped.photographs else ON_SCENES} One seed; `{again}` repeats the numbers.
{shipped.remarks}
{_pictures(shipped)}"""


def _seeds(shipped: Shipped) -> str:
    return "" if shipped.photographs else "; training scenes are generated from seed 1, validation 2, test 3"


def _images(shipped: Shipped) -> str:
    result, data = shipped.result, shipped.preset.data.name
    kind = "photographs" if shipped.photographs else "generated scenes"
    tested = f"| test split | {result.images:,} {kind}, sha256 `{result.data.sha256[:16]}…` |"
    return f"{tested}\n| data | {TERMS[data]} |" if shipped.photographs else tested


def _scores(shipped: Shipped) -> str:
    """Our scores, those of published records, and the paper's."""
    result, real = shipped.result, shipped.real
    published = paper_row(shipped.preset.model, result.data.data_set)
    columns = ["score", "frozen test split", *(["real records"] if real else []), "paper"]
    rows = [columns, ["---"] * len(columns)]
    for name in _told(shipped):
        scores = [result.scores, *([real.scores] if real else [])]
        known = published is not None and name in published.scores
        beside = f"{published.scores[name].mean:.3f}" if known else "–"  # type: ignore[union-attr]
        rows.append([title(name), *(text(name, each[name]) for each in scores), beside])
    notes = [] if published is None else notes_beside(published, result.data.name)
    return "\n".join([*("| " + " | ".join(row) + " |" for row in rows), *[f"\n{note}" for note in notes]])


def _told(shipped: Shipped) -> list[str]:
    """The scores of photographs that say something: no masks of a decoder by tokens, and no ARI of one thing."""
    kept = [*(name for name in OVERLAPS if name.startswith("encoder")), "mse"]
    return [name for name in shipped.result.shown if not shipped.photographs or name in kept]


def _real(shipped: Shipped) -> str:
    real = shipped.real
    return f"\nReal records: {real.images} images, sha256 `{real.data.sha256[:16]}…`.\n" if real else ""


def _yardsticks(result: Result) -> str:
    """What is to be had on the same images without training."""
    if not result.yardsticks:
        return ""
    names = result.told_by
    rows = [["masks", *map(title, names)], ["---"] * (1 + len(names))]
    rows.append(["**these weights, encoder**", *(text(name, result.scores[f"encoder_{name}"]) for name in names)])
    rows += [[way.title, *(text(name, way.scores[name]) for name in names)] for way in result.yardsticks]
    return "\n" + "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def _pictures(shipped: Shipped) -> str:
    name = shipped.name
    if shipped.photographs:
        command = f"coca figure generation {name} --data DIR"
        found = f"`{command}` draws photographs with what was found in them; they are not ours to show here."
    else:
        shown = "image, reconstruction, truth, decoder masks and encoder masks of six validation scenes"
        found = f"![{shown}]({name}-found.png)"
    return f"""
{found}
{_published(shipped)}
The curve is of the run itself{"" if shipped.as_trained else ", as it was trained"}.

![validation scores against time and images]({name}.png)
"""


def _published(shipped: Shipped) -> str:
    """What `tools.published` has drawn."""
    if not shipped.published:
        return ""
    return f"""
What it finds in published images, which are not ours to show: segments alone, the ground grey, images cropped as in
the paper's protocol.

![segments of published images]({shipped.name}-published.png)
"""


def overrides(preset: Preset) -> str:
    """What the weights have in another way than their preset has now."""
    difference = first_difference(to_plain(preset), to_plain(find(preset.name)))
    return f", but {difference}" if difference else ""
