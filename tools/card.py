"""The card of shipped weights: how they were trained, and what they score."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from cocanet.config import Preset
from cocanet.config.serialization import first_difference, to_dict
from cocanet.evaluate.evaluation import Evaluation
from cocanet.metrics.table import text, title
from cocanet.paper_scores import notes_beside, paper_row
from cocanet.presets import PHOTOGRAPHS, find

TERMS = {
    "birds": "CUB-200-2011, for non-commercial research and education by its publishers' terms",
    "flowers": "trained on Flowers-102, scored on Flowers-17; Oxford's VGG publishes both for research",
}
GENERATED = """The paper's scores are of the published images, ours of scenes that we generate after them. The paper
trained on 32,000,000 images."""


class Shipped(NamedTuple):
    """Everything that a card says; only `remarks` and `machine` are typed by hand."""

    name: str
    preset: Preset
    notes: Mapping[str, Any]
    """Step, images, seconds, seed, commit and command."""
    result: Evaluation
    """The scores of the network's own masks on the test split."""
    published: Evaluation | None = None
    """Scores on published images, where the others are of generated scenes."""
    remarks: str = ""
    machine: str = "two CPU cores"
    first: int | None = None
    """The number of images of the test split that were scored, unless all of them were."""
    published_picture: bool = False
    """Whether `tools.published` has drawn segments of published images."""

    @property
    def photographs(self) -> bool:
        return self.preset.data.name in PHOTOGRAPHS


def card(shipped: Shipped) -> str:
    """The page, in Markdown."""
    name, notes, facts = shipped.name, shipped.notes, shipped.result.provenance
    seeds = "" if shipped.photographs else "; training scenes are generated from seed 1, validation 2, test 3"
    minutes = f"{notes['seconds'] / 60:.0f} minutes on {shipped.machine}"
    rows = {
        "preset": f"`{shipped.preset.name}`{difference(shipped.preset)}",
        "command": f"`{notes['command']}`",
        "commit": notes["commit"],
        "seed": f"{notes['seed']}{seeds}",
        "trained for": f"{notes['step']:,} steps, {notes['images']:,} images, {minutes}",
        "trained by": facts.training,
        "decoder": facts.decoder,
        "evaluated": facts.masks,
        "test split": facts.images,
    }
    if shipped.photographs:
        rows["data"] = TERMS[shipped.preset.data.name]
    again = f"coca evaluate {name}" + " --data DIR" * shipped.photographs
    again += f" --first {shipped.first}" if shipped.first else ""
    parts = [
        f"# Weights: {name}",
        f'`cocanet.load("{name}")`, `coca segment {name} PATH… --out DIR`',
        table(("", ""), rows.items()),
        *_scores(shipped),
        *_baselines(shipped.result),
        " ".join([*([] if shipped.photographs else [GENERATED]), f"One seed; `{again}` repeats the numbers."]),
        *([shipped.remarks] if shipped.remarks else []),
        *_pictures(shipped),
    ]
    return "\n\n".join(parts) + "\n"


def _scores(shipped: Shipped) -> list[str]:
    """These weights, beside their scores on published images and the paper's."""
    result, published = shipped.result, shipped.published
    paper = paper_row(shipped.preset.model, result.data.data_set)
    columns = ["score", "test split", *(["published images"] if published else []), "paper"]
    rows = []
    for name in result.shown:
        scores = [result.scores[name], *([published.scores[name]] if published else [])]
        known = paper is not None and name in paper.scores
        beside = f"{paper.scores[name].mean:.3f}" if paper is not None and known else "–"
        rows.append([title(name), *(text(name, score) for score in scores), beside])
    notes = [] if paper is None else notes_beside(paper, result.data.name)
    if published:
        notes.append(f"Published images: {published.provenance.images}.")
    return [table(columns, rows), *notes]


def _baselines(result: Evaluation) -> list[str]:
    """Non-learned baselines on the same images, the untrained encoder among them."""
    if not result.baselines:
        return []
    names = result.mask_scores
    rows = [["**these weights, encoder**", *(text(name, result.scores[f"encoder_{name}"]) for name in names)]]
    rows += [[each.title, *(text(name, each.scores[name]) for name in names)] for each in result.baselines]
    return ["Non-learned baselines on the same images:", table(["masks", *map(title, names)], rows)]


def _pictures(shipped: Shipped) -> list[str]:
    name = shipped.name
    if shipped.photographs:
        command = f"coca figure generation {name} --data DIR"
        pictures = [f"`{command}` draws photographs with their segments; their licence does not let us show them here."]
    else:
        shown = "image, reconstruction, ground truth, decoder masks and encoder masks of six validation scenes"
        pictures = [f"![{shown}]({name}-found.png)"]
    if shipped.published_picture:
        pictures += [
            "Segments of published images, cropped as in the paper's protocol. The images are not ours to show.",
            f"![segments of published images]({name}-published.png)",
        ]
    return [*pictures, f"![validation scores of the run against time and images]({name}.png)"]


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def difference(preset: Preset) -> str:
    """Where the weights' preset differs from the one of that name today."""
    found = first_difference(to_dict(preset), to_dict(find(preset.name)))
    return f", but {found}" if found else ""
