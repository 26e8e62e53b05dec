"""What the page is told: values of the library, arranged for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from cocanet.config import CocaNetConfig
from cocanet.explore.colours import BACKGROUND, SEGMENTS, landscape_colours
from cocanet.explore.document import Document
from cocanet.explore.gallery import Entry
from cocanet.explore.message import Message
from cocanet.explore.shown import shown_labels, shown_picture, shown_size
from cocanet.models.tokens import TokenDecoder
from cocanet.segment.explanation import Explanation
from cocanet.segment.segmenter import Segmenter
from cocanet.segment.shapes import find_runs, measure_shapes


def about_model(name: str, segmenter: Segmenter) -> dict[str, Any]:
    """A model and what can be asked of it."""
    config = segmenter.preset.model
    assert isinstance(config, CocaNetConfig)
    last = config.levels[-1]
    return {
        "name": name,
        "preset": segmenter.preset.name,
        "size": list(config.image_size),
        "levels": [{"clusters": level.clusters, "window": list(level.window)} for level in config.levels],
        "slots": config.dynamic.most if config.dynamic else config.slots,
        "dynamic": config.dynamic is not None,
        "stop_below": config.dynamic.stop_below if config.dynamic else 0.025,
        "temperature": last.temperature * last.sharpen,
        "feedback": config.feedback.rounds,
        "anchors": config.anchors,
        "tokens": isinstance(getattr(segmenter.model, "decoder", None), TokenDecoder),
    }


def about_colours() -> dict[str, Any]:
    """Colours of segments and of compactness."""
    return {"segments": list(SEGMENTS), "background": BACKGROUND, "landscape": landscape_colours().tolist()}


def explanation_message(entry: Entry, found: Explanation, *, picture: bool) -> Message:
    """An image's segments on every level, with where their anchors are."""
    height, width = found.placement.size
    shown = shown_size((height, width))
    levels, arrays = [], dict[str, np.ndarray]()
    if picture:
        arrays["picture"] = shown_picture(found.pixels)
    for number, level in enumerate(found.levels, 1):
        anchors = found.anchors(number)
        window, cell = found.window(number), found.cell
        levels.append(
            {
                "number": number,
                "windows": len(anchors),
                "clusters": found.encoding.levels[number - 1].clusters.masks.shape[2],
                "anchors": int((~np.isnan(anchors[..., 0])).any(0).sum()),
                "window": [window[0] * cell[0], window[1] * cell[1]],
            }
        )
        arrays |= {
            f"labels{number}": shown_labels(level.labels),
            f"anchors{number}": anchors.astype(np.float32),
            f"slot{number}": level.numbers.astype(np.int32),
            f"area{number}": level.shapes.area.astype(np.int32),
            f"box{number}": level.shapes.box.astype(np.int32),
            f"centre{number}": level.shapes.centre.astype(np.float32),
            f"compactness{number}": level.shapes.compactness.astype(np.float32),
            f"confidence{number}": level.confidence.astype(np.float32),
        }
    if found.origins is not None:
        arrays["origins"] = found.origins.astype(np.float32)
    header = {
        "image": {"key": entry.key, "name": entry.name, "width": width, "height": height},
        "shown": {"width": shown[1], "height": shown[0]},
        "model": {"height": found.view.shape[0], "width": found.view.shape[1]},
        "seen": _seen(found),
        "levels": levels,
    }
    return Message(header, arrays)


def _seen(found: Explanation) -> dict[str, float]:
    """Where the model's image lies on the image, in the image's pixels: beyond its edges where it was padded."""
    rows, columns = found.placement
    tall, wide = rows.seen / rows.span, columns.seen / columns.span
    return {
        "top": rows.first - rows.start * tall,
        "left": columns.first - columns.start * wide,
        "height": rows.cells * tall,
        "width": columns.cells * wide,
    }


def choices_message(found: Explanation, level: int) -> Message:
    """Scope, affinity and cluster of every step of a level, over the model's cells."""
    if not 1 <= level <= len(found.levels):
        raise ValueError(f"level must lie in 1 … {len(found.levels)} for this model; got {level}")
    choices = found.choices(level)
    return Message(
        {"level": level, "steps": choices.steps},
        {"scopes": choices.scopes, "affinities": choices.affinities, "clusters": choices.clusters},
    )


def landscape_message(found: Explanation) -> Message:
    """Compactness over the model's image, level by level and of the objects."""
    maps = {f"level{number}": values for number, values in enumerate(found.landscape.levels, 1)}
    return Message({"levels": len(maps)}, {**maps, "objects": found.landscape.objects})


def slots_message(found: Explanation) -> Message:
    """Each slot's own picture and masks, at the model's size."""
    used = found.encoding.in_use[0]
    encoder = found.encoding.masks[0][used].float().cpu().numpy()
    pictures = _bytes(found.slots.pictures)
    return Message({"slots": len(pictures)}, {"pictures": pictures, "decoder": found.slots.masks, "encoder": encoder})


def scene_message(found: Explanation, off: set[int]) -> Message:
    """The scene without some slots."""
    count = int(found.encoding.in_use[0].sum())
    outside = [slot for slot in off if not 0 <= slot < count]
    if outside:
        raise ValueError(f"slot {outside[0]} is not there: this image has {count}")
    kept = np.array([slot not in off for slot in range(count)])
    return Message({"off": sorted(off)}, {"picture": _bytes(found.scene(kept))})


def labels_message(document: Document | None) -> Message:
    """The labels of an image as they are now; revision 0 says that there are none."""
    if document is None:
        return Message({"revision": 0}, {})
    labels, state = document.labels(), document.state
    there, ordered = np.unique(labels, return_inverse=True)
    shapes = measure_shapes(find_runs(ordered.reshape(labels.shape)), len(there))
    place = {label: index for index, label in enumerate(there.tolist())}
    things = []
    for label, thing in enumerate([state.thing(state.background), *document.objects]):
        index = place.get(label)
        things.append(
            {
                "id": thing.id,
                "label": label,
                "category": thing.category,
                "level": thing.level,
                "background": label == 0,
                "area": 0 if index is None else int(shapes.area[index]),
                "centre": None if index is None else shapes.centre[index].tolist(),
            }
        )
    header = {
        "revision": document.revision,
        "things": things,
        "done": state.done,
        "undo": document.at,
        "redo": len(document.states) - 1 - document.at,
        "weights": document.weights,
    }
    return Message(header, {"labels": shown_labels(labels)})


def _bytes(colours: np.ndarray) -> np.ndarray:
    return np.asarray((colours * 255).round().astype(np.uint8))
