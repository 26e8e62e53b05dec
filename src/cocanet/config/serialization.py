"""Configurations as plain JSON and back, checked on the way in."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

T = TypeVar("T")


def to_dict(config: Any) -> dict[str, Any]:
    """A configuration as JSON holds it: dictionaries, lists, strings and numbers."""
    plain: dict[str, Any] = json.loads(json.dumps(asdict(config)))
    return plain


def from_dict(kind: type[T], plain: Any, origin: str) -> T:
    """The configuration that `to_dict` wrote; ValueError names the first field that is wrong, and `origin`."""
    infinite = _infinite(plain)
    if infinite is not None:
        raise ValueError(f"{origin} has a bad configuration: {infinite} is not finite")
    try:
        config = TypeAdapter(kind).validate_python(plain)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "it"
        wrong = first["msg"].removeprefix("Value error, ")
        raise ValueError(f"{origin} has a bad configuration: {place}: {wrong}") from None
    unknown = _unknown(plain, to_dict(config))
    if unknown is not None:
        raise ValueError(f"{origin} has a field that this version does not know: {unknown}")
    return config


def changed(plain: Any, changes: Any) -> Any:
    """Plain values with some of them replaced: `{"levels": {"0": {"depth": 2}}}` reaches into the first level."""
    if not isinstance(changes, Mapping):
        return changes
    if isinstance(plain, list):
        return [changed(value, changes.get(str(index), value)) for index, value in enumerate(plain)]
    known = dict(plain or {})
    return known | {key: changed(known.get(key), value) for key, value in changes.items()}


def first_difference(one: Any, other: Any, place: str = "") -> str | None:
    """The first field in which two plain configurations differ, as `model.dim: 64, not 32`; None if they agree."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        pairs = [(key, one.get(key), other.get(key)) for key in dict.fromkeys([*one, *other])]
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = [(str(index), *pair) for index, pair in enumerate(zip(one, other, strict=True))]
    else:
        return None if one == other else f"{place}: {json.dumps(one)}, not {json.dumps(other)}"
    found = (first_difference(a, b, f"{place}.{key}" if place else key) for key, a, b in pairs)
    return next((difference for difference in found if difference), None)


def _infinite(plain: Any, place: str = "") -> str | None:
    """The first number that is not finite: 1e999 is JSON."""
    if isinstance(plain, float):
        return None if math.isfinite(plain) else place or "it"
    if isinstance(plain, Mapping):
        pairs = list(plain.items())
    elif isinstance(plain, list | tuple):
        pairs = [(str(index), value) for index, value in enumerate(plain)]
    else:
        return None
    found = (_infinite(value, f"{place}.{key}" if place else str(key)) for key, value in pairs)
    return next((name for name in found if name), None)


def _unknown(given: Any, known: Any, place: str = "") -> str | None:
    """A key of `given` that `known` lacks."""
    if isinstance(given, Mapping) and isinstance(known, Mapping):
        extra = [key for key in given if key not in known]
        if extra:
            return f"{place}{extra[0]}"
        pairs = [(key, given[key], known[key]) for key in given]
    elif isinstance(given, list) and isinstance(known, list):
        pairs = [(str(index), *pair) for index, pair in enumerate(zip(given, known, strict=False))]
    else:
        return None
    found = (_unknown(a, b, f"{place}{key}.") for key, a, b in pairs)
    return next((name for name in found if name), None)
