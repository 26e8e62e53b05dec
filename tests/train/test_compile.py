"""`coca train --compile`: which parts are compiled and when, and the message where there is no compiler.

That compiled parts compute the same is in tests/models/test_compile.py.
"""

from __future__ import annotations

import shutil

import pytest
import torch
from torch import nn

from cocanet.models.build import build
from cocanet.train.loop import train
from cocanet.train.stages import compile_parts
from tests.tiny import small
from tests.train.runs import noise_store, tiny_settings


@pytest.fixture
def compiled(monkeypatch) -> list[str]:
    """Kinds of the parts that were compiled; nothing is, in truth."""
    found: list[str] = []
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(nn.Module, "compile", lambda part: found.append(type(part).__name__))
    return found


def test_the_parts_are_compiled_one_by_one(compiled):
    compile_parts(build(small(), seed=0))
    assert compiled == ["Backbone", "Hierarchy", "BroadcastDecoder"]


@pytest.mark.parametrize("requested", [True, False])
def test_a_run_compiles_on_request_and_validates_without(tmp_path, monkeypatch, compiled, requested):
    stances = []

    class Stance:
        def __init__(self, stance):
            stances.append(stance)

        def __enter__(self):
            return self

        def __exit__(self, *error):
            return None

    monkeypatch.setattr(torch.compiler, "set_stance", Stance)
    train(tiny_settings(noise_store(tmp_path / "data"), {"compile": requested, "validate_every": 2}), tmp_path / "run")
    assert bool(compiled) == requested
    assert set(stances) == {"force_eager"}


def test_without_a_compiler_one_line_says_so(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ValueError, match=r"neither g\+\+ nor clang\+\+"):
        compile_parts(build(small(), seed=0))
