"""Evaluations without pictures."""

from __future__ import annotations

import pytest


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes most of the time of small evaluations."""
    monkeypatch.setattr("cocanet.evaluate.evaluation.discovery_grid", lambda *_, **__: None)
    for module in ("evaluation", "compare_tables", "report"):
        monkeypatch.setattr(f"cocanet.evaluate.{module}.save", lambda figure, path: path.touch())
