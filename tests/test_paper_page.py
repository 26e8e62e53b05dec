"""docs/paper.md names code and tests that exist, and leaves out nothing that the paper numbers."""

from __future__ import annotations

import importlib
import re
from functools import reduce
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "paper.md").read_text()
CODE = sorted(set(re.findall(r"`((?:functional|layers|models|train)/[\w/]+\.py): ([\w.]+)`", PAGE)))
PACKAGES = sorted(set(re.findall(r"`(\w+)` package: `(\w+)`", PAGE)))
TESTS = sorted(set(re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)))


def test_references_are_found_by_their_form():
    assert len(CODE) > 30
    assert len(PACKAGES) > 5
    assert len(TESTS) > 50
    # Whatever else looks like a reference would not be checked.
    assert PAGE.count("::") == len(re.findall(r"`[\w/]+\.py::\w+`", PAGE))
    assert len(re.findall(r"\.py: ", PAGE)) == len(re.findall(r"`[\w/]+\.py: [\w.]+`", PAGE))


def test_code_exists():
    for path, name in CODE:
        module = importlib.import_module(f"cocanet.{path.removesuffix('.py').replace('/', '.')}")
        assert reduce(getattr, name.split("."), module) is not None, f"{path}: {name}"


def test_functions_of_packages_exist():
    source = ROOT / "src" / "cocanet"
    for package, name in PACKAGES:
        files = [*source.glob(f"{package}.py"), *source.glob(f"{package}/**/*.py")]
        defined = re.compile(rf"^(?:def|class) {name}\b", re.MULTILINE)
        assert any(defined.search(file.read_text()) for file in files), f"{package}: {name}"


def test_tests_exist():
    for path, name in TESTS:
        files = list((ROOT / "tests").rglob(path))
        assert files, f"no file tests/**/{path}"
        defined = re.compile(rf"^def {name}\(", re.MULTILINE)
        assert any(defined.search(file.read_text()) for file in files), f"{path}::{name}"


def test_every_label_of_the_paper_is_named(tex):
    labels = [label for label in re.findall(r"\\label\{([^}]+)\}", tex) if not re.match(r"(sub)?sec:", label)]
    assert len(labels) > 40
    assert [label for label in labels if f"`{label}`" not in PAGE] == []


def test_every_number_of_the_paper_has_an_entry(tex):
    count = {
        "**Eq. {}**": r"\\begin\{(?:equation|subequations)\}",
        "**Alg. {}**": r"\\begin\{algorithm\}",
        "| {} | `tbl:|| {} | `quantitative`": r"\\begin\{table\*?\}",
        "| {} | `fig:": r"\\begin\{figure\*?\}|\\captionof\{figure\}",
    }
    for entry, environment in count.items():
        total = len(re.findall(environment, tex))
        assert total
        for number in range(1, total + 1):
            assert any(form.format(number) in PAGE for form in entry.split("||")), entry.format(number)
