"""Arguments that several commands have, and how flags are parsed."""

from __future__ import annotations

from types import NoneType
from typing import Annotated, Any, get_args, get_origin

import tyro
from tyro.constructors import (
    ConstructorRegistry,
    PrimitiveConstructorSpec,
    PrimitiveTypeInfo,
    UnsupportedTypeAnnotationError,
)

Weights = Annotated[
    str,
    tyro.conf.Positional,
    tyro.conf.arg(
        metavar="WEIGHTS",
        help="A name of shipped weights (`coca demo` lists them), a weights file, a run folder, or a folder that "
        "save_pretrained wrote.",
    ),
]

registry = ConstructorRegistry()


@registry.primitive_rule
def _optional(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """Parse and show `X | None` as X: `--level INT`, not `--level {None}|INT`. The word None gives None.

    `bool | None` is a switch.
    """
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


@registry.primitive_rule
def _several(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """Show `tuple[X, ...]` as X…, and an empty one as none."""
    kinds = get_args(info.type)
    if get_origin(info.type) is not tuple or len(kinds) != 2 or kinds[1] is not Ellipsis:
        return None
    spec = ConstructorRegistry.get_primitive_spec(PrimitiveTypeInfo.make(kinds[0], set(info.markers)))
    if isinstance(spec, UnsupportedTypeAnnotationError) or spec.nargs != 1:
        return None
    return PrimitiveConstructorSpec(
        "*",
        f"{spec.metavar}…",
        lambda given: tuple(spec.instance_from_str([word]) for word in given),
        lambda values: isinstance(values, tuple) and all(map(spec.is_instance, values)),
        lambda values: [word for value in values for word in spec.str_from_instance(value)] or ["none"],
        choices=spec.choices,
    )
