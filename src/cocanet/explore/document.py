"""Labels of one image on disk: pieces of it, which pieces make a thing, and every state to go back to.

Pieces are masks that are never changed, only added to; a state says which of them make which thing. So a document
holds its own history at little cost, and undo works after a restart.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from cocanet.files import read_json, write_atomically, writing
from cocanet.segment.coco import decode_mask

FORMAT, VERSION = "cocanet labels", 1
MOST_STATES = 60
"""States that are kept to go back to."""


@dataclass(frozen=True)
class Thing:
    """A labelled segment: pieces, a category or none yet, and the level of the hierarchy that it is a cluster of."""

    id: int
    pieces: tuple[int, ...]
    level: int
    category: str = ""


@dataclass(frozen=True)
class State:
    """All things of an image, whose pixels are all pixels, and which of them is the background."""

    things: tuple[Thing, ...]
    background: int
    done: str
    """What led here, in words."""

    def thing(self, number: int) -> Thing:
        for thing in self.things:
            if thing.id == number:
                return thing
        raise ValueError(f"there is no segment {number} here; there are {len(self.things)} others")


@dataclass(frozen=True)
class Document:
    """The labels of one image."""

    image: str
    size: tuple[int, int]
    """Height and width of the image."""
    weights: str
    """What found the segments that these labels began with."""
    pieces: tuple[str, ...]
    """Masks as COCO's run lengths."""
    states: tuple[State, ...]
    at: int
    """Which of the states holds."""
    revision: int
    """Counts the changes, undone ones too."""

    @property
    def state(self) -> State:
        return self.states[self.at]

    def mask(self, thing: Thing) -> Bool[np.ndarray, "h w"]:
        mask = np.zeros(self.size, dtype=bool)
        for number in thing.pieces:
            mask |= self.piece(number)
        return mask

    def piece(self, number: int) -> Bool[np.ndarray, "h w"]:
        return decode_mask({"size": self.size, "counts": self.pieces[number]})

    def labels(self) -> Int[np.ndarray, "h w"]:
        """0 for the background, 1, 2, … for the other things in their order."""
        labels = np.zeros(self.size, dtype=np.int32)
        for label, thing in enumerate(self.objects, 1):
            for number in thing.pieces:
                labels[self.piece(number)] = label
        return labels

    @property
    def objects(self) -> list[Thing]:
        """All things but the background."""
        return [thing for thing in self.state.things if thing.id != self.state.background]

    def with_state(self, state: State, pieces: Sequence[str] = ()) -> Document:
        """The document after a change; what was undone before it is forgotten."""
        states = (*self.states[: self.at + 1], state)[-MOST_STATES:]
        changed = replace(
            self,
            pieces=(*self.pieces, *pieces),
            states=states,
            at=len(states) - 1,
            revision=self.revision + 1,
        )
        return _without_unused(changed)

    def moved(self, steps: int) -> Document:
        """The document some states back or forth."""
        at = self.at + steps
        if not 0 <= at < len(self.states):
            raise ValueError("there is nothing to undo" if steps < 0 else "there is nothing to do again")
        return replace(self, at=at, revision=self.revision + 1)


def _without_unused(document: Document) -> Document:
    """Leave out the pieces that only forgotten states had."""
    used = sorted({number for state in document.states for thing in state.things for number in thing.pieces})
    if len(used) == len(document.pieces):
        return document
    place = {number: index for index, number in enumerate(used)}

    def moved(thing: Thing) -> Thing:
        return replace(thing, pieces=tuple(place[number] for number in thing.pieces))

    states = tuple(replace(state, things=tuple(map(moved, state.things))) for state in document.states)
    return replace(document, pieces=tuple(document.pieces[number] for number in used), states=states)


def write_document(path: Path, document: Document) -> None:
    """Put a document in place whole, or leave what was there."""
    content = json.loads(json.dumps({"format": FORMAT, "version": VERSION} | asdict(document)))
    content["sha256"] = _digest(content)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, [json.dumps(content).encode(), b"\n"])


def read_document(path: Path) -> Document | None:
    """A checked document, None if there is none; ValueError in one sentence for what this version did not write."""
    try:
        content = read_json(path)
    except FileNotFoundError:
        return None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f'{path} holds no labels: expected "format": "{FORMAT}"; it is left as it is')
    if content.get("version") != VERSION:
        raise ValueError(
            f"{path} has labels of version {content.get('version')!r}; this cocanet reads version {VERSION}, "
            "so it is left as it is"
        )
    recorded = content.pop("sha256", None)
    if recorded != _digest(content):
        raise ValueError(f"{path} was edited by something else: it does not match its own sha256; it is left as it is")
    try:
        document = _parse(content)
        document.labels()
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise ValueError(f"{path} does not hold together ({error}); it is left as it is") from None
    return document


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _parse(content: Mapping[str, Any]) -> Document:
    states = tuple(
        State(
            tuple(Thing(x["id"], tuple(x["pieces"]), x["level"], x["category"]) for x in state["things"]),
            state["background"],
            state["done"],
        )
        for state in content["states"]
    )
    height, width = content["size"]
    fields = ("image", "weights", "at", "revision")
    return Document(
        size=(height, width),
        pieces=tuple(content["pieces"]),
        states=states,
        **{name: content[name] for name in fields},
    )
