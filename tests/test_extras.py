"""What an installation without extras brings, and what it does not."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]


def required(names: list[str]) -> set[str]:
    """Packages that these bring, and those bring, as far as they are installed here; no extra of any."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = re.split(r"[\s<>=!~;\[(]", waiting.pop(), maxsplit=1)[0].lower().replace("_", "-")
        if name in found:
            continue
        found.add(name)
        try:
            waiting += [line for line in requires(name) or [] if "extra ==" not in line.replace("'", '"')]
        except PackageNotFoundError:
            continue
    return found


def test_no_runtime_for_exports_without_the_extra():
    assert not required(PROJECT["dependencies"]) & {"onnx", "onnxruntime", "onnxscript", "onnx-ir"}


def test_the_extra_brings_them():
    assert {"onnx", "onnxruntime", "onnxscript"} <= required(PROJECT["optional-dependencies"]["onnx"])
