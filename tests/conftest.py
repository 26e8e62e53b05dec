"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from PIL import Image

# Before torch is loaded: tests that share a machine with other work shall not take ten times as long.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# For the same reason no example of a property has a deadline.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Scenes that tests make stay out of the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COCANET_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session", autouse=True)
def draw_validation() -> Iterator[Callable[..., None]]:
    """Pictures of validations are one grey pixel: drawing takes more than half of a tiny run. The real function."""
    from cocanet.train import validate

    def grey_pixel(batch: Any, output: Any, images: Any, picture: Path) -> None:
        picture.parent.mkdir(exist_ok=True)
        Image.new("RGB", (1, 1), "grey").save(picture)

    real = validate.draw
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(validate, "draw", grey_pixel)
        yield real


@pytest.fixture
def real_pictures(monkeypatch: pytest.MonkeyPatch, draw_validation: Callable[..., None]) -> None:
    """Validations draw their pictures."""
    monkeypatch.setattr("cocanet.train.validate.draw", draw_validation)


@pytest.fixture(scope="session")
def samples() -> Path:
    """Small real samples of the published data, which are not part of the project (set COCANET_SAMPLES)."""
    default = Path(__file__).resolve().parents[1].parent / "shared" / "data"
    folder = Path(os.environ.get("COCANET_SAMPLES", default))
    if not folder.is_dir():
        pytest.skip(f"no real samples in {folder}; set COCANET_SAMPLES to their folder")
    return folder


@pytest.fixture(scope="session")
def tex() -> str:
    """The paper's LaTeX, which is not part of the project either (set COCANET_PAPER)."""
    default = Path(__file__).resolve().parents[2] / "shared" / "paper" / "coca-net.tex"
    path = Path(os.environ.get("COCANET_PAPER", default))
    if not path.exists():
        pytest.skip(f"the paper's LaTeX is not at {path}; set COCANET_PAPER to it")
    return path.read_text()
