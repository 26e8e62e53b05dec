"""Edits of labels: each is a function from a document to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Int

from cocanet.explore.labels import LabelDocument, LabelSegment, LabelState
from cocanet.predict.coco import encode_mask
from cocanet.predict.shapes import split_components
from cocanet.words import plural

LevelLabels = Callable[[int], Int[np.ndarray, "h w"]]
"""The predicted label map of a level, counted from 1, in the image's own pixels."""

Divide = Callable[[LabelSegment, Bool[np.ndarray, "h w"]], list[Bool[np.ndarray, "h w"]]]

MAX_NAME = 60
MAX_SEGMENTS = 5000
ACTIONS = ("merge", "delete", "background", "split", "components", "name", "undo", "redo")
"""Edits of whole segments; `mending` has those that are drawn."""


def apply(
    document: LabelDocument, action: str, selected: Sequence[int], category: str, level_labels: LevelLabels
) -> LabelDocument:
    """The document after one of `ACTIONS` on the selected segments."""
    match action:
        case "merge":
            return merge(document, selected)
        case "delete":
            return delete(document, selected)
        case "background":
            return set_background(document, selected)
        case "split":
            return split_by_level(document, selected, level_labels)
        case "components":
            return split_by_component(document, selected)
        case "name":
            return set_category(document, selected, category)
        case "undo":
            return document.moved(-1)
        case "redo":
            return document.moved(1)
    raise ValueError(f"cannot {action!r} labels; expected a name of an edit, such as {', '.join(ACTIONS)}")


def begin(
    image: str, weights: str, predicted: Int[np.ndarray, "h w"], level: int, *, refined: bool = False
) -> LabelDocument:
    """A document that begins with a predicted label map of a level; label 0 is the background."""
    state, masks = _initial(predicted, level, 0, 0, LabelState((), 0, "as predicted", refined))
    height, width = predicted.shape
    return LabelDocument(image, (height, width), weights, tuple(masks), (state,), current=0, revision=1)


def restart(
    document: LabelDocument, predicted: Int[np.ndarray, "h w"], level: int, *, refined: bool = False
) -> LabelDocument:
    """Replace all segments by a predicted label map; undo returns to the segments before."""
    empty = LabelState((), 0, "restarted from the prediction", refined)
    state, masks = _initial(predicted, level, len(document.masks), next_id(document), empty)
    return document.with_state(state, masks)


def merge(document: LabelDocument, selected: Sequence[int]) -> LabelDocument:
    """Merge segments into one; with the background among them, all become background."""
    segments = select_segments(document, selected, "to merge")
    if len(segments) < 2:
        raise ValueError("select at least two segments to merge")
    state = document.state
    into = next((segment for segment in segments if segment.id == state.background), segments[0])
    category = next((segment.category for segment in (into, *segments) if segment.category), "")
    return document.with_state(_merged(state, segments, into, category, f"merged {plural(len(segments), 'segment')}"))


def delete(document: LabelDocument, selected: Sequence[int]) -> LabelDocument:
    """Merge segments into the background."""
    state, segments = document.state, select_segments(document, selected, "to delete")
    if any(segment.id == state.background for segment in segments):
        raise ValueError("the background cannot be deleted; set another background first")
    into, edit = state.segment(state.background), f"deleted {plural(len(segments), 'segment')}"
    return document.with_state(_merged(state, [into, *segments], into, into.category, edit))


def set_background(document: LabelDocument, selected: Sequence[int]) -> LabelDocument:
    """Merge segments into a new background; the old background becomes an object."""
    state, segments = document.state, select_segments(document, selected, "for the background")
    merged = _merged(state, segments, segments[0], "", "set the background")
    return document.with_state(replace(merged, background=segments[0].id))


def set_category(document: LabelDocument, selected: Sequence[int], category: str) -> LabelDocument:
    """Give segments a category; an empty one removes it."""
    category = " ".join(category.split())
    if len(category) > MAX_NAME or not category.isprintable():
        raise ValueError(f"a category is a name of at most {MAX_NAME} letters; got {category[:80]!r}")
    state, ids = document.state, {segment.id for segment in select_segments(document, selected, "to name")}
    if state.background in ids:
        raise ValueError("the background has no category; select other segments to name")
    named = tuple(replace(segment, category=category) if segment.id in ids else segment for segment in state.segments)
    edit = f"named {plural(len(ids), 'segment')} {category}" if category else "removed a category"
    return document.with_state(replace(state, segments=named, edit=edit))


def split_by_level(document: LabelDocument, selected: Sequence[int], level_labels: LevelLabels) -> LabelDocument:
    """Split segments into the clusters of the level below theirs."""
    segments = select_segments(document, selected, "to split")
    lowest = [segment.id for segment in segments if segment.level < 2]
    if lowest:
        raise ValueError(f"segment {lowest[0]} is a cluster of the lowest level; below it are only pixels")

    def clusters(segment: LabelSegment, mask: Bool[np.ndarray, "h w"]) -> list[Bool[np.ndarray, "h w"]]:
        labels = level_labels(segment.level - 1)
        return [mask & (labels == label) for label in np.unique(labels[mask])]

    return divide_segments(document, segments, clusters, 1, "split {}")


def split_by_component(document: LabelDocument, selected: Sequence[int]) -> LabelDocument:
    """Split segments into their connected components."""

    def components(segment: LabelSegment, mask: Bool[np.ndarray, "h w"]) -> list[Bool[np.ndarray, "h w"]]:
        labels = split_components(mask.astype(np.int32)).labels
        return [labels == label for label in range(1, int(labels.max()) + 1)]

    segments = select_segments(document, selected, "to split into components")
    return divide_segments(document, segments, components, 0, "split {} into components")


def divide_segments(
    document: LabelDocument, segments: Sequence[LabelSegment], divide: Divide, down: int, edit: str
) -> LabelDocument:
    """Divide segments into parts that are `down` levels lower; the largest part of the background stays background."""
    state, masks, number = document.state, list[str](), next_id(document)
    parts: dict[int, list[LabelSegment]] = {}
    area: dict[int, int] = {}
    for segment in segments:
        divided = divide(segment, document.mask(segment))
        if len(divided) < 2:
            continue
        parts[segment.id] = []
        for mask in divided:
            level, place = max(1, segment.level - down), len(document.masks) + len(masks)
            parts[segment.id].append(LabelSegment(number, (place,), level, segment.category))
            area[number] = int(mask.sum())
            masks.append(encode_mask(mask)["counts"])
            number += 1
    if not parts:
        raise ValueError("nothing to split: each of these segments is a single part")
    after = tuple(part for segment in state.segments for part in parts.get(segment.id, [segment]))
    _check_count(after)
    background = state.background
    if background in parts:
        background = max((part.id for part in parts[background]), key=area.__getitem__)
    edit = edit.format(plural(len(parts), "segment"))
    return document.with_state(replace(state, segments=after, background=background, edit=edit), masks)


def _initial(
    labels: Int[np.ndarray, "h w"], level: int, first_mask: int, first_id: int, empty: LabelState
) -> tuple[LabelState, list[str]]:
    """The state with a segment for each label, and the segments' masks."""
    present = np.unique(labels).tolist()
    masks = [encode_mask(labels == label)["counts"] for label in present]
    segments = tuple(LabelSegment(first_id + place, (first_mask + place,), level) for place in range(len(present)))
    _check_count(segments)
    background = first_id + present.index(0) if 0 in present else first_id
    return replace(empty, segments=segments, background=background), masks


def _check_count(segments: Sequence[LabelSegment]) -> None:
    if len(segments) > MAX_SEGMENTS:
        raise ValueError(f"{len(segments):,} segments are too many to label; expected at most {MAX_SEGMENTS:,}")


def select_segments(document: LabelDocument, selected: Iterable[int], purpose: str) -> list[LabelSegment]:
    segments = [document.state.segment(number) for number in dict.fromkeys(selected)]
    if not segments:
        raise ValueError(f"select a segment {purpose} first")
    return segments


def _merged(
    state: LabelState, segments: Sequence[LabelSegment], into: LabelSegment, category: str, edit: str
) -> LabelState:
    """All of `segments` in the place of `into`."""
    gone = {segment.id for segment in segments} - {into.id}
    masks = tuple(dict.fromkeys(number for segment in segments for number in segment.masks))
    whole = replace(into, masks=masks, category=category, level=max(segment.level for segment in segments))
    after = tuple(whole if segment.id == into.id else segment for segment in state.segments if segment.id not in gone)
    background = into.id if state.background in gone else state.background
    return replace(state, segments=after, background=background, edit=edit)


def next_id(document: LabelDocument) -> int:
    return 1 + max(segment.id for state in document.states for segment in state.segments)
