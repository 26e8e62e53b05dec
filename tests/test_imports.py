"""Imports run one way: from the commands down to plain values."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "cocanet"
LAYERS = (
    ("words", "progress", "labels", "limits", "files", "runtime", "extras"),
    ("config",),
    ("functional", "presets"),
    ("layers",),
    ("models",),
    ("refine",),
    ("metrics", "data"),
    ("paper_scores", "io"),
    ("explain",),
    ("train", "predict"),
    ("evaluate", "doctor", "export"),
    ("explore",),
    ("cli",),
    ("__main__", "__init__"),
)
"""From the bottom up; a package imports only from the layers below its own."""
LAYER = {name: layer for layer, names in enumerate(LAYERS) for name in names}
TORCH_FREE = (*LAYERS[0], "config", "presets")


def modules() -> Iterator[tuple[str, str, ast.AST]]:
    """The package, the path and the syntax tree of every module."""
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE)
        yield name.parts[0].removesuffix(".py"), str(name), ast.parse(path.read_text())


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


def test_a_package_imports_from_the_layers_below_it_only():
    assert {package for package, _, _ in modules()} == set(LAYER)
    wrong = [
        f"{path} imports {name}"
        for package, path, tree in modules()
        for name in imported(tree)
        if name.startswith("cocanet.") and package != "__init__"
        for other in [name.split(".")[1]]
        if other in LAYER and other != package and LAYER[other] >= LAYER[package]
    ]
    assert wrong == []


def test_plain_values_need_no_torch():
    wrong = [
        f"{path} imports {name}"
        for package, path, tree in modules()
        if package in TORCH_FREE
        for name in imported(tree)
        if name.split(".")[0] in ("torch", "einops", "matplotlib")
    ]
    assert wrong == []


def test_only_the_commands_print():
    wrong = []
    for package, path, tree in modules():
        if package not in ("cli", "__main__"):
            calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
            prints = any(isinstance(call, ast.Name) and call.id == "print" for call in calls)
            shows = any(name.startswith(("rich.console", "rich.progress", "rich.table")) for name in imported(tree))
            wrong += [path] if prints or shows else []
    assert wrong == []
