"""`python -m tools.mutants`: change the code in small ways, and print the changes that no test notices.

A mutant is one changed line in a copy of the source. The tests of its module must fail. Seven mutants are written by
hand, since reviews once found that no test noticed them; a seed draws the others.
"""

from __future__ import annotations

import ast
import copy
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest
import torch  # noqa: F401
import tyro

ROOT = Path(__file__).parents[1]
SECONDS = 300
"""A mutant whose tests take longer is noticed: it never ends."""
FUNCTIONAL = ("affinity", "clustering", "compactness", "geometry", "hierarchy", "pooling", "windows")
TESTS: dict[str, tuple[str, ...]] = {
    **{f"functional/{name}.py": (f"functional/test_{name}.py",) for name in FUNCTIONAL},
    "metrics/functional/ari.py": ("metrics/test_segmentation.py",),
    "metrics/functional/contingency.py": ("metrics/test_segmentation.py",),
    "metrics/functional/covering.py": ("metrics/test_segmentation.py",),
    "metrics/functional/overlap.py": ("metrics/test_overlap.py",),
    "refine/merge.py": ("refine/test_merge.py",),
    "predict/placement.py": ("predict/test_extreme_sizes.py", "predict/test_placement.py"),
    "predict/images.py": ("predict/test_images.py",),
    "limits.py": ("predict/test_images.py", "predict/test_extreme_sizes.py"),
    "data/loader.py": ("data/test_loader.py",),
    "data/store_format.py": ("data/test_store_format.py", "data/test_store.py", "io/test_crafted.py"),
    "data/readers/input_files.py": ("data/readers/test_own_folder.py", "explore/test_label_folder.py"),
    "data/readers/parquet.py": ("data/readers/test_parquet.py", "data/readers/test_parquet_bombs.py"),
    "data/readers/parquet_pages.py": ("data/readers/test_parquet_bombs.py",),
    "io/checksum.py": ("io/test_crafted.py", "test_weights.py"),
    "io/weights.py": ("io/test_crafted.py", "test_weights.py"),
    "config/bounds.py": ("io/test_crafted.py",),
    "files.py": ("train/test_safety.py", "explore/test_label_folder.py"),
    "train/loop.py": ("train/test_safety.py", "train/test_loop.py"),
    "train/checkpoint.py": ("train/test_safety.py", "train/test_run_folder.py"),
    "explore/guard.py": ("explore/test_server.py",),
    "explore/connections.py": ("explore/test_connections.py",),
    "explore/labels.py": ("explore/test_labels.py", "explore/test_label_folder.py"),
}
"""Modules that are mutated, and the tests that must notice."""
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.GtE: ast.Gt,
    ast.Gt: ast.GtE,
    ast.LtE: ast.Lt,
    ast.Lt: ast.LtE,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


class Mutant(NamedTuple):
    """One change of a module."""

    module: str
    line: int
    change: str
    source: str
    """The changed module."""


class ByHand(NamedTuple):
    module: str
    before: str
    after: str


BY_HAND = (
    ByHand("train/loop.py", 'if state.best_mse is None or found.scores["mse"] < state.best_mse:', "if True:"),
    ByHand("data/loader.py", "stretch.epoch * len(self.data) + places", "places"),
    ByHand("refine/merge.py", "in_use / in_use.sum(-1, keepdim=True)", "in_use * 0 + 0.25"),
    ByHand("functional/clustering.py", "scope.mean(-1) >= scope_threshold", "scope.mean(-1) > scope_threshold"),
    ByHand("explore/guard.py", '("none", "same-origin")', '("none", "same-origin", "same-site")'),
    ByHand("data/readers/input_files.py", " and not is_output(Path(folder, name))", ""),
    ByHand("files.py", "            os.fsync(file.fileno())\n", ""),
)
HARMLESS: dict[tuple[str, str], str] = {
    ("train/checkpoint.py", "3 → 4"): "the journal has the seconds with a fourth digit",
}
"""Changes that matter to nobody, by module and change, with the reason."""


@dataclass(frozen=True)
class Mutants:
    count: int = 40
    """Mutants in all."""
    seed: int = 0
    only: str = ""
    """Modules whose path contains this."""


def main(options: Mutants) -> int:
    chosen = choose(options)
    began, survivors = time.monotonic(), list[Mutant]()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        for name in ("src", "tests", "tools"):
            shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", tree)
        if _fails(tree, sorted({name for mutant in chosen for name in TESTS[mutant.module]}), silent=False):
            raise SystemExit("the tests fail without any mutant")
        for number, mutant in enumerate(chosen, 1):
            noticed = is_noticed(tree, mutant)
            harmless = HARMLESS.get((mutant.module, mutant.change))
            survivors += [] if noticed or harmless else [mutant]
            result = "noticed" if noticed else f"harmless: {harmless}" if harmless else "SURVIVED"
            print(f"{number:3}/{len(chosen)} {mutant.module}:{mutant.line}: {mutant.change}: {result}", flush=True)
    minutes = (time.monotonic() - began) / 60
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants noticed or harmless, in {minutes:.1f} minutes")
    return 1 if survivors else 0


def choose(options: Mutants) -> list[Mutant]:
    """Those by hand first; the others are spread evenly over the modules."""
    chosen = [by_hand(one) for one in BY_HAND if options.only in one.module]
    draw = random.Random(options.seed)
    modules = [module for module in TESTS if options.only in module]
    possible = {module: places_of(module) for module in modules}
    for found in possible.values():
        draw.shuffle(found)
    draw.shuffle(modules)
    while len(chosen) < options.count and any(possible.values()):
        for module in modules:
            if possible[module] and len(chosen) < options.count:
                chosen.append(mutant_at(module, possible[module].pop()))
    return chosen


def by_hand(given: ByHand) -> Mutant:
    source = (ROOT / "src" / "cocanet" / given.module).read_text()
    if source.count(given.before) != 1:
        raise ValueError(f"{given.module} has {given.before!r} {source.count(given.before)} times; expected it once")
    line = source[: source.index(given.before)].count("\n") + 1
    change = f"{given.before.strip()} → {given.after.strip() or 'nothing'}"
    return Mutant(given.module, line, change, source.replace(given.before, given.after))


def places_of(module: str) -> list[int]:
    """Numbers of the nodes of a module that can be changed."""
    tree = ast.parse((ROOT / "src" / "cocanet" / module).read_text())
    passive = _passive(tree)
    return [number for number, node in enumerate(ast.walk(tree)) if number not in passive and mutate(copy.copy(node))]


def mutant_at(module: str, number: int) -> Mutant:
    """A swapped operator, a negated condition, a number plus one, or a call left out."""
    tree = ast.parse((ROOT / "src" / "cocanet" / module).read_text())
    node = list(ast.walk(tree))[number]
    before = ast.unparse(node)
    mutate(node)
    return Mutant(module, getattr(node, "lineno", 0), f"{before} → {ast.unparse(node)}", ast.unparse(tree))


def _passive(tree: ast.AST) -> set[int]:
    """Numbers of the nodes that only a reader sees: annotations, messages of errors, constants of modules."""
    numbers = {id(node): number for number, node in enumerate(ast.walk(tree))}
    passive: set[int] = set()
    for node in ast.walk(tree):
        parts: list[ast.AST | None] = []
        if isinstance(node, ast.Module):
            parts += [part for part in node.body if isinstance(part, ast.Assign)]
        elif isinstance(node, ast.arg | ast.AnnAssign):
            parts.append(node.annotation)
        elif isinstance(node, ast.FunctionDef):
            parts += [node.returns, *node.decorator_list]
        elif isinstance(node, ast.Raise | ast.JoinedStr | ast.ClassDef):
            parts += [node] if not isinstance(node, ast.ClassDef) else [*node.bases, *node.decorator_list]
        passive |= {numbers[id(inner)] for part in parts if part is not None for inner in ast.walk(part)}
    return passive


def mutate(node: ast.AST) -> bool:
    """Change a node in place, if it is of a kind that is changed."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in SWAPS:
        node.ops = [SWAPS[type(node.ops[0])]()]  # type: ignore[list-item]
    elif isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign) and type(node.op) in SWAPS:
        node.op = SWAPS[type(node.op)]()  # type: ignore[assignment]
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        node.value = node.value + 1
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        node.value = ast.Constant(None)
    elif isinstance(node, ast.IfExp):
        node.test = ast.UnaryOp(ast.Not(), node.test)
    else:
        return False
    return True


def is_noticed(tree: Path, mutant: Mutant) -> bool:
    """Whether a test fails, or never ends, with the mutant in the place of its module."""
    path = tree / "src" / "cocanet" / mutant.module
    original = path.read_text()
    path.write_text(mutant.source)
    try:
        return _fails(tree, TESTS[mutant.module])
    finally:
        path.write_text(original)


def _fails(tree: Path, tests: Sequence[str], *, silent: bool = True) -> bool:
    """Run tests on the source in a folder."""
    child = os.fork()  # torch is imported once, for all of them
    if child:
        return os.waitpid(child, 0)[1] != 0
    signal.alarm(SECONDS * len(tests))
    for stream in (1, 2) if silent else ():
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    os.chdir(tree)
    # For processes that tests start, too.
    os.environ |= {"PYTHONPATH": os.pathsep.join((str(tree / "src"), str(tree))), "PYTHONDONTWRITEBYTECODE": "1"}
    sys.path[:0], sys.dont_write_bytecode = [str(tree / "src"), str(tree)], True
    # Without the hooks that check shapes, which would notice for the tests.
    options = ["-x", "-p", "no:cacheprovider", "-o", "addopts=-q --strict-markers"]
    os._exit(pytest.main([*options, *(f"tests/{name}" for name in tests)]))


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Mutants)))
