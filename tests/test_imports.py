"""Imports run one way, from the commands down to plain values; no package needs one that needs it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "cocanet"
FLOORS = (
    ("words", "suggest", "watch", "labels", "files", "runtime", "extras"),
    ("config",),
    ("functional", "presets"),
    ("layers",),
    ("models",),
    ("metrics", "data"),
    ("paper_scores", "weights"),
    ("runs",),
    ("explain",),
    ("figures",),
    ("train", "segment"),
    ("evaluation", "doctor", "scale", "export"),
    ("report",),
    ("compare", "explore"),
    ("cli",),
    ("__main__", "__init__"),
)
"""From the ground up; a room may use the rooms below, and what stands beside it on a floor stands alone."""
RANK = {name: floor for floor, names in enumerate(FLOORS) for name in names}
TORCH_FREE = ("words", "suggest", "watch", "labels", "files", "runtime", "extras", "config", "presets")


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def name_of(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def imported(tree: ast.AST) -> Iterator[str]:
    """Names of modules that a file imports anywhere but for type checkers."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        yield from imported(node)


def room(path: Path) -> str:
    first = path.relative_to(SOURCE).parts[0]
    return first.removesuffix(".py")


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_a_module_uses_only_what_lies_below(path):
    own = room(path)
    for name in imported(ast.parse(path.read_text())):
        if not name.startswith("cocanet."):
            continue
        other = name.split(".")[1]
        if other in RANK and other != own and own != "__init__":
            assert RANK[other] < RANK[own], f"{own} uses {name}"


def test_every_room_has_its_floor():
    assert {room(path) for path in modules()} == set(RANK)


@pytest.mark.parametrize("path", [path for path in modules() if room(path) in TORCH_FREE], ids=name_of)
def test_plain_values_need_no_torch(path):
    names = {name.split(".")[0] for name in imported(ast.parse(path.read_text()))}
    assert not names & {"torch", "einops", "matplotlib"}


@pytest.mark.parametrize("path", [path for path in modules() if room(path) not in ("cli", "__main__")], ids=name_of)
def test_only_the_commands_print(path):
    tree = ast.parse(path.read_text())
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    assert not [call for call in calls if isinstance(call, ast.Name) and call.id == "print"]
    assert not [name for name in imported(tree) if name.startswith(("rich.console", "rich.progress", "rich.table"))]
