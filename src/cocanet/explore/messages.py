"""Messages to the page: a JSON header and binary arrays, and what they hold for each request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from cocanet.config import CocaNetConfig, DynamicSlots
from cocanet.explore.display import (
    BACKGROUND_COLOUR,
    SEGMENT_COLOURS,
    compactness_colours,
    display_image,
    display_labels,
    display_size,
)
from cocanet.explore.gallery import GalleryEntry
from cocanet.explore.labels import LabelDocument
from cocanet.models.tokens import TokenDecoder
from cocanet.predict.explanation import Explanation
from cocanet.predict.segmenter import Segmenter
from cocanet.predict.shapes import find_runs, measure_shapes

MEDIA_TYPE = "application/x-cocanet"
_ALIGN = 8


class Message(NamedTuple):
    """A JSON header, and arrays by name."""

    header: dict[str, Any]
    arrays: dict[str, np.ndarray]


def pack(message: Message) -> bytes:
    """The header's length in 4 bytes, the header, and the arrays it lists.

    Arrays begin at multiples of 8 bytes, so that a browser can view them without a copy.
    """
    places, parts, start = {}, list[bytes](), 0
    for name, array in message.arrays.items():
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        places[name] = {"type": little.dtype.name, "shape": list(little.shape), "start": start}
        data = little.tobytes()
        padding = bytes(-len(data) % _ALIGN)
        parts += [data, padding]
        start += len(data) + len(padding)
    header = json.dumps({**message.header, "arrays": places}, allow_nan=False).encode()
    header += b" " * (-(len(header) + 4) % _ALIGN)
    return b"".join([len(header).to_bytes(4, "little"), header, *parts])


def unpack(data: bytes) -> Message:
    """The message that `pack` wrote."""
    start = 4 + int.from_bytes(data[:4], "little")
    header: Mapping[str, Any] = json.loads(data[4:start])
    arrays = {}
    for name, place in header["arrays"].items():
        dtype, shape = np.dtype(place["type"]), place["shape"]
        flat = np.frombuffer(data, dtype, int(np.prod(shape, dtype=int)), start + place["start"])
        arrays[name] = flat.reshape(shape)
    return Message({name: value for name, value in header.items() if name != "arrays"}, arrays)


def describe_model(name: str, segmenter: Segmenter) -> dict[str, Any]:
    """A model and its settings."""
    config = segmenter.preset.model
    assert isinstance(config, CocaNetConfig)
    dynamic = config.dynamic or DynamicSlots()
    return {
        "name": name,
        "preset": segmenter.preset.name,
        "size": list(config.image_size),
        "levels": [{"clusters": level.clusters, "window": list(level.window)} for level in config.levels],
        "slots": config.dynamic.max_slots if config.dynamic else config.slots,
        "dynamic": config.dynamic is not None,
        "scope_threshold": dynamic.scope_threshold,
        "temperature": config.levels[-1].temperature,
        "token_decoder": isinstance(getattr(segmenter.model, "decoder", None), TokenDecoder),
    }


def describe_colours() -> dict[str, Any]:
    """Colours of segments and of compactness."""
    return {
        "segments": list(SEGMENT_COLOURS),
        "background": BACKGROUND_COLOUR,
        "compactness": compactness_colours().tolist(),
    }


def explanation_message(entry: GalleryEntry, found: Explanation, *, image: bool) -> Message:
    """The segments of every level, with the anchors' positions; with `image` also its pixels."""
    height, width = found.placement.size
    shown = display_size((height, width))
    levels, arrays = [], dict[str, np.ndarray]()
    if image:
        arrays["image"] = display_image(found.pixels)
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
            f"labels{number}": display_labels(level.labels),
            f"anchors{number}": anchors.astype(np.float32),
            f"slot{number}": level.numbers.astype(np.int32),
            f"area{number}": level.shapes.area.astype(np.int32),
            f"box{number}": level.shapes.box.astype(np.int32),
            f"centre{number}": level.shapes.centre.astype(np.float32),
            f"compactness{number}": level.shapes.compactness.astype(np.float32),
            f"confidence{number}": level.confidence.astype(np.float32),
        }
    header = {
        "image": {"key": entry.key, "name": entry.shown, "width": width, "height": height},
        "shown": {"width": shown[1], "height": shown[0]},
        "model": {"height": found.view.shape[0], "width": found.view.shape[1]},
        "view": _view(found),
        "levels": levels,
        "refined": found.levels[-1].refined,
    }
    return Message(header, arrays)


def _view(found: Explanation) -> dict[str, float]:
    """The rectangle of the model's input, in the image's pixels; it exceeds the image where that was padded."""
    rows, columns = found.placement
    tall, wide = rows.seen / rows.span, columns.seen / columns.span
    return {
        "top": rows.first - rows.start * tall,
        "left": columns.first - columns.start * wide,
        "height": rows.cells * tall,
        "width": columns.cells * wide,
    }


def steps_message(found: Explanation, level: int) -> Message:
    """Scope, affinity and cluster of every clustering step of a level, over the model's cells."""
    if not 1 <= level <= len(found.levels):
        raise ValueError(f"level must lie in 1 … {len(found.levels)} for this model; got {level}")
    steps = found.steps(level)
    return Message(
        {"level": level, "steps": steps.used},
        {"scopes": steps.scopes, "affinities": steps.affinities, "clusters": steps.clusters},
    )


def compactness_message(found: Explanation) -> Message:
    """Compactness maps of each level and of the objects, over the model's input."""
    maps = {f"level{number}": values for number, values in enumerate(found.compactness.levels, 1)}
    return Message({"levels": len(maps)}, {**maps, "objects": found.compactness.objects})


def slots_message(found: Explanation) -> Message:
    """Image and masks of each slot, at the model's size."""
    used = found.encoding.in_use[0]
    encoder = found.encoding.masks[0][used].float().cpu().numpy()
    images = _bytes(found.slots.images)
    header = {"slots": len(images), "explained": _explained(found)}
    return Message(header, {"images": images, "decoder": found.slots.masks, "encoder": encoder})


def _explained(found: Explanation) -> float:
    """The share of the variance of the image's colours that the reconstruction explains."""
    target = found.view / 255
    error = np.square(found.scene(np.ones(len(found.slots.images), dtype=bool)) - target).mean()
    return 1 - float(error / max(np.square(target - target.mean((0, 1))).mean(), 1e-9))


def scene_message(found: Explanation, off: set[int]) -> Message:
    """The reconstruction without some slots."""
    count = int(found.encoding.in_use[0].sum())
    outside = [slot for slot in off if not 0 <= slot < count]
    if outside:
        raise ValueError(f"there is no slot {outside[0]}: this image has {count} slots, counted from 0")
    kept = np.array([slot not in off for slot in range(count)])
    return Message({"off": sorted(off)}, {"image": _bytes(found.scene(kept))})


def labels_message(document: LabelDocument | None) -> Message:
    """The current labels of an image; revision 0 for none."""
    if document is None:
        return Message({"revision": 0}, {})
    labels, state = document.labels(), document.state
    present, ordered = np.unique(labels, return_inverse=True)
    shapes = measure_shapes(find_runs(ordered.reshape(labels.shape)), len(present))
    place = {label: index for index, label in enumerate(present.tolist())}
    segments = []
    for label, segment in enumerate([state.segment(state.background), *document.objects]):
        index = place.get(label)
        segments.append(
            {
                "id": segment.id,
                "label": label,
                "category": segment.category,
                "level": segment.level,
                "background": label == 0,
                "area": 0 if index is None else int(shapes.area[index]),
                "centre": None if index is None else shapes.centre[index].tolist(),
            }
        )
    header = {
        "revision": document.revision,
        "segments": segments,
        "edit": state.edit,
        "refined": state.refined,
        "undo": document.current,
        "redo": len(document.states) - 1 - document.current,
        "weights": document.weights,
    }
    return Message(header, {"labels": display_labels(labels)})


def _bytes(colours: np.ndarray) -> np.ndarray:
    return np.asarray((colours * 255).round().astype(np.uint8))
