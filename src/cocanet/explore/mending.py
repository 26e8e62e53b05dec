"""Edits by drawing on the image: brush, eraser, polygon, box, cuts, pieces and holes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, UInt8
from scipy import ndimage

from cocanet.explore import cutting
from cocanet.explore.drawing import Point, box_corners, draw_polygon, draw_stroke
from cocanet.explore.editing import divide_segments, next_id, select_segments
from cocanet.explore.labels import LabelDocument, LabelSegment
from cocanet.predict.coco import encode_mask
from cocanet.words import plural

Pixels = Callable[[], UInt8[np.ndarray, "h w 3"]]
ACTIONS = ("paint", "erase", "polygon", "box", "cut", "seeds", "pieces", "fill")


@dataclass(frozen=True)
class Drawing:
    """What was drawn, in the image's pixels; see `drawing`."""

    points: tuple[Point, ...] = ()
    radius: float = 1.0
    """Of the brush."""
    follow: bool = False
    """Whether a box stands for the object in it."""
    subtract: bool = False
    """Whether a polygon or box is erased."""
    level: int = 1
    """The level that new segments count as."""


def apply(
    document: LabelDocument, action: str, selected: Sequence[int], drawing: Drawing, pixels: Pixels
) -> LabelDocument:
    """The document after one of `ACTIONS`.

    What is drawn becomes part of the selected segment, or a new object if none is selected.
    """
    if action == "fill":
        return fill_holes(document, selected)
    if action == "pieces":
        return split_by_colour(document, selected, pixels)
    if action in ("cut", "seeds"):
        return cut(document, action, selected, drawing, pixels)
    area = _area(document, action, drawing, pixels)
    if not area.any():
        raise ValueError("nothing was drawn on the image; draw inside of it")
    if action == "erase" or drawing.subtract:
        return erase(document, selected, area)
    return paint(document, selected, area, drawing.level)


def paint(document: LabelDocument, selected: Sequence[int], area: Bool[np.ndarray, "h w"], level: int) -> LabelDocument:
    """Give the pixels of an area to the selected segment, or to a new object if none is selected."""
    if not selected:
        return _give(document, area, LabelSegment(next_id(document), (), level), "drew a new object")
    return _give(document, area, _only(document, selected, "to draw into, or none for a new object"), "drew")


def erase(document: LabelDocument, selected: Sequence[int], area: Bool[np.ndarray, "h w"]) -> LabelDocument:
    """Give the pixels of an area to the background; with a selection, only those of the selected segments."""
    background = document.state.segment(document.state.background)
    only = {segment.id for segment in select_segments(document, selected, "to erase")} if selected else None
    return _give(document, area, background, "erased", only)


def fill_holes(document: LabelDocument, selected: Sequence[int]) -> LabelDocument:
    """Give the selected segment all pixels that it encloses."""
    segment = _only(document, selected, "whose holes to fill")
    mask = document.mask(segment)
    holes = np.asarray(ndimage.binary_fill_holes(mask)) & ~mask
    if not holes.any():
        raise ValueError("nothing to fill: this segment encloses no other pixels")
    return _give(document, holes, segment, "filled holes")


def split_by_colour(document: LabelDocument, selected: Sequence[int], pixels: Pixels) -> LabelDocument:
    """Split segments into pieces of like colour."""

    def pieces(segment: LabelSegment, mask: Bool[np.ndarray, "h w"]) -> list[Bool[np.ndarray, "h w"]]:
        return cutting.colour_pieces(pixels(), mask) if mask.any() else [mask]

    segments = select_segments(document, selected, "to split by colour")
    return divide_segments(document, segments, pieces, 0, "split {} by colour")


def cut(
    document: LabelDocument, action: str, selected: Sequence[int], drawing: Drawing, pixels: Pixels
) -> LabelDocument:
    """Cut one segment in two, along a line or between two points; the border follows the image.

    Without a selection it is the segment that has most of the line, or the first point.
    """
    if len(drawing.points) < 2 or (action == "seeds" and len(drawing.points) != 2):
        raise ValueError(f"a cut needs a line, or two points; got {plural(len(drawing.points), 'point')}")
    line = draw_stroke(document.size, drawing.points if action == "cut" else drawing.points[:1], 1.0)
    labels = document.labels()
    if not selected:
        if not line.any():
            raise ValueError("nothing was drawn on the image; draw inside of it")
        label = int(np.bincount(labels[line]).argmax())
        selected = [document.state.background if label == 0 else document.objects[label - 1].id]
    segment = _only(document, selected, "to cut")

    def halves(segment: LabelSegment, mask: Bool[np.ndarray, "h w"]) -> list[Bool[np.ndarray, "h w"]]:
        if action == "cut":
            part = cutting.cut_along(pixels(), mask, drawing.points)
        else:
            part = cutting.cut_between(pixels(), mask, *drawing.points)
        return [half for half in (part, mask & ~part) if half.any()]

    return divide_segments(document, [segment], halves, 0, "cut {} in two")


def _area(document: LabelDocument, action: str, drawing: Drawing, pixels: Pixels) -> Bool[np.ndarray, "h w"]:
    least = {"polygon": 3, "box": 2}.get(action, 1)
    if len(drawing.points) < least:
        raise ValueError(f"a {action} needs at least {plural(least, 'point')}; got {len(drawing.points)}")
    if action == "polygon":
        return draw_polygon(document.size, drawing.points)
    if action == "box":
        first, second = drawing.points[0], drawing.points[-1]
        if drawing.follow:
            return cutting.object_in_box(pixels(), first, second)
        return draw_polygon(document.size, box_corners(first, second))
    return draw_stroke(document.size, drawing.points, drawing.radius)


def _give(
    document: LabelDocument,
    area: Bool[np.ndarray, "h w"],
    into: LabelSegment,
    edit: str,
    only: set[int] | None = None,
) -> LabelDocument:
    """Give an area to a segment; segments without pixels vanish, but the background stays."""
    state, labels = document.state, document.labels()
    ordered = [state.segment(state.background), *document.objects]
    masks, changed, gained = list[str](), dict[int, LabelSegment | None](), np.zeros_like(area)
    for label in np.unique(labels[area]).tolist():
        segment = ordered[label]
        if segment.id == into.id or (only is not None and segment.id not in only):
            continue
        rest = (labels == label) & ~area
        gained |= (labels == label) & area
        changed[segment.id] = None
        if rest.any() or label == 0:
            changed[segment.id] = replace(segment, masks=(len(document.masks) + len(masks),))
            masks.append(encode_mask(rest)["counts"])
    if not gained.any():
        raise ValueError("nothing changes: these pixels are the segment's already")
    whole = gained | document.mask(into)
    changed[into.id] = replace(into, masks=(len(document.masks) + len(masks),))
    masks.append(encode_mask(whole)["counts"])
    present = [changed.get(segment.id, segment) for segment in state.segments]
    if not _has(document, into.id):
        present.append(changed[into.id])
    segments = tuple(segment for segment in present if segment is not None)
    return document.with_state(replace(state, segments=segments, edit=edit), masks)


def _only(document: LabelDocument, selected: Sequence[int], purpose: str) -> LabelSegment:
    segments = select_segments(document, selected, purpose)
    if len(segments) > 1:
        raise ValueError(f"{len(segments)} segments are selected; select one {purpose}")
    return segments[0]


def _has(document: LabelDocument, number: int) -> bool:
    return any(segment.id == number for segment in document.state.segments)
