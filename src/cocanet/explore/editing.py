"""What can be done to labels: each a function from a document to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Int

from cocanet.explore.document import Document, State, Thing
from cocanet.segment.coco import encode_mask
from cocanet.segment.components import split_components
from cocanet.words import plural

Parts = Callable[[int], Int[np.ndarray, "h w"]]
"""The label map of a level, from 1, of the image in its own pixels."""

Divide = Callable[[Thing, Bool[np.ndarray, "h w"]], list[Bool[np.ndarray, "h w"]]]

LONGEST_NAME = 60
MOST_THINGS = 5000


def begin(image: str, weights: str, labels: Int[np.ndarray, "h w"], level: int) -> Document:
    """Labels as they were found; label 0 is the background."""
    state, pieces = _found(labels, level, first=0, done="as found")
    height, width = labels.shape
    return Document(image, (height, width), weights, tuple(pieces), (state,), at=0, revision=1)


def again(document: Document, labels: Int[np.ndarray, "h w"], level: int) -> Document:
    """Labels as they are found now, after what there was."""
    state, pieces = _found(labels, level, len(document.pieces), "begun again", _next_id(document))
    return document.with_state(state, pieces)


def merge(document: Document, chosen: Sequence[int]) -> Document:
    """Several things become one; with the background among them, all become background."""
    things = _chosen(document, chosen, "to merge")
    if len(things) < 2:
        raise ValueError("choose at least two segments to merge")
    state = document.state
    into = next((thing for thing in things if thing.id == state.background), things[0])
    category = next((thing.category for thing in (into, *things) if thing.category), "")
    return document.with_state(_joined(state, things, into, category, f"merged {plural(len(things), 'segment')}"))


def delete(document: Document, chosen: Sequence[int]) -> Document:
    """Things become background."""
    state, things = document.state, _chosen(document, chosen, "to delete")
    if any(thing.id == state.background for thing in things):
        raise ValueError("the background cannot be deleted; set another background first")
    into = state.thing(state.background)
    return document.with_state(
        _joined(state, [into, *things], into, into.category, f"deleted {plural(len(things), 'segment')}")
    )


def set_background(document: Document, chosen: Sequence[int]) -> Document:
    """These are the background, and what was it before is a thing like others."""
    state, things = document.state, _chosen(document, chosen, "for the background")
    joined = _joined(state, things, things[0], "", "set the background")
    return document.with_state(replace(joined, background=things[0].id))


def name(document: Document, chosen: Sequence[int], category: str) -> Document:
    """Things of a category; an empty one takes it away."""
    category = " ".join(category.split())
    if len(category) > LONGEST_NAME or not category.isprintable():
        raise ValueError(f"a category is a name of at most {LONGEST_NAME} letters; got {category[:80]!r}")
    state, things = document.state, {thing.id for thing in _chosen(document, chosen, "to name")}
    if state.background in things:
        raise ValueError("the background has no category; choose other segments to name")
    named = tuple(replace(thing, category=category) if thing.id in things else thing for thing in state.things)
    done = f"named {plural(len(things), 'segment')} {category}" if category else "took a name away"
    return document.with_state(replace(state, things=named, done=done))


def split(document: Document, chosen: Sequence[int], parts: Parts) -> Document:
    """Things fall into the clusters of the level below theirs."""
    things = _chosen(document, chosen, "to split")
    lowest = [thing.id for thing in things if thing.level < 2]
    if lowest:
        raise ValueError(f"segment {lowest[0]} is a cluster of the lowest level; below it are only pixels")

    def below(thing: Thing, mask: Bool[np.ndarray, "h w"]) -> list[Bool[np.ndarray, "h w"]]:
        labels = parts(thing.level - 1)
        return [mask & (labels == label) for label in np.unique(labels[mask])]

    return _divided(document, things, below, 1, "split {}")


def take_apart(document: Document, chosen: Sequence[int]) -> Document:
    """Things fall into their connected parts."""

    def connected(thing: Thing, mask: Bool[np.ndarray, "h w"]) -> list[Bool[np.ndarray, "h w"]]:
        found = split_components(mask.astype(np.int32)).labels
        return [found == label for label in range(1, int(found.max()) + 1)]

    return _divided(document, _chosen(document, chosen, "to take apart"), connected, 0, "took {} apart")


def _divided(document: Document, things: Sequence[Thing], divide: Divide, down: int, done: str) -> Document:
    """Things in the masks they fall into, each `down` levels lower; of the background the largest part stays it."""
    state, pieces, number = document.state, list[str](), _next_id(document)
    made: dict[int, list[Thing]] = {}
    area: dict[int, int] = {}
    for thing in things:
        masks = divide(thing, document.mask(thing))
        if len(masks) < 2:
            continue
        made[thing.id] = []
        for mask in masks:
            level = max(1, thing.level - down)
            part = Thing(number, (len(document.pieces) + len(pieces),), level, thing.category)
            made[thing.id].append(part)
            area[number] = int(mask.sum())
            pieces.append(encode_mask(mask)["counts"])
            number += 1
    if not made:
        raise ValueError("nothing to divide: each of these segments is one part already")
    after = [part for thing in state.things for part in made.get(thing.id, [thing])]
    _check_count(after)
    background = state.background
    if background in made:
        background = max((part.id for part in made[background]), key=area.__getitem__)
    words = done.format(plural(len(made), "segment"))
    return document.with_state(State(tuple(after), background, words), pieces)


def _found(
    labels: Int[np.ndarray, "h w"], level: int, first: int, done: str, number: int = 0
) -> tuple[State, list[str]]:
    there = np.unique(labels).tolist()
    pieces = [encode_mask(labels == label)["counts"] for label in there]
    things = [Thing(number + place, (first + place,), level) for place in range(len(there))]
    _check_count(things)
    return State(tuple(things), number + there.index(0) if 0 in there else number, done), pieces


def _check_count(things: Sequence[Thing]) -> None:
    if len(things) > MOST_THINGS:
        raise ValueError(f"{len(things):,} segments are too many to label; expected at most {MOST_THINGS:,}")


def _chosen(document: Document, chosen: Iterable[int], purpose: str) -> list[Thing]:
    things = [document.state.thing(number) for number in dict.fromkeys(chosen)]
    if not things:
        raise ValueError(f"choose a segment {purpose} first")
    return things


def _joined(state: State, things: Sequence[Thing], into: Thing, category: str, done: str) -> State:
    """All of `things` in the place of `into`."""
    gone = {thing.id for thing in things} - {into.id}
    pieces = tuple(dict.fromkeys(number for thing in things for number in thing.pieces))
    level = max(thing.level for thing in things)
    whole = replace(into, pieces=pieces, category=category, level=level)
    after = tuple(whole if thing.id == into.id else thing for thing in state.things if thing.id not in gone)
    background = into.id if state.background in gone else state.background
    return State(after, background, done)


def _next_id(document: Document) -> int:
    return 1 + max(thing.id for state in document.states for thing in state.things)
