"""Flags that may be left out are shown by what they take: `--level INT`, not `--level {None}|INT`."""

from __future__ import annotations

from types import NoneType
from typing import Any, get_args

from tyro.constructors import (
    ConstructorRegistry,
    PrimitiveConstructorSpec,
    PrimitiveTypeInfo,
    UnsupportedTypeAnnotationError,
)

registry = ConstructorRegistry()


@registry.primitive_rule
def _optional(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """`X | None` is given as X is; None is for who leaves it out, or says so where a default is something else.
    `bool | None` is a switch."""
    kinds = [kind for kind in get_args(info.type) if kind is not NoneType]
    if len(kinds) != 1 or NoneType not in get_args(info.type):
        return None
    if kinds == [bool]:
        return PrimitiveConstructorSpec(
            0, "", lambda _: True, lambda value: value in (None, True, False), lambda value: [str(bool(value))]
        )
    spec = ConstructorRegistry.get_primitive_spec(PrimitiveTypeInfo.make(kinds[0], set(info.markers)))
    if isinstance(spec, UnsupportedTypeAnnotationError):
        return None
    return PrimitiveConstructorSpec(
        spec.nargs,
        spec.metavar,
        lambda given: None if given == ["None"] else spec.instance_from_str(given),
        lambda value: value is None or spec.is_instance(value),
        lambda value: ["None"] if value is None else spec.str_from_instance(value),
        choices=spec.choices,
    )
