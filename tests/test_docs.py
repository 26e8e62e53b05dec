"""What docs/python.md, docs/own-images.md and docs/scale.md show works as it stands there."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from cocanet.cli import main

DOCS = Path(__file__).parents[1] / "docs"


def blocks(name: str, language: str = "") -> str:
    """The fenced blocks of a page in one language; other lines are left blank, so that line numbers stay."""
    lines, inside = [], None
    for line in (DOCS / name).read_text().splitlines():
        if line.startswith("```"):
            inside = None if inside is not None else line.removeprefix("```")
            lines.append("")
        else:
            lines.append(line if inside == language else "")
    return "\n".join(lines) + "\n"


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COCANET_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_python_examples(workplace):
    examples = doctest.DocTestParser().get_doctest(blocks("python.md", "python"), {}, "python.md", "docs/python.md", 0)
    assert len(examples.examples) > 50
    failures: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(examples, out=failures.append)
    assert not failures, "\n".join(failures)
    assert all((workplace / name).stat().st_size > 1000 for name in ("grid.png", "overlay.png", "compactness.pdf"))


def budgeted(command: str) -> list[str]:
    """A command's words with a step for every half hour."""
    tiny = re.sub(r"--minutes (\d+)", lambda match: f"--steps {int(match[1]) // 30} --batch-size 4", command)
    return shlex.split(tiny, comments=True)[1:]


def exit_code(arguments: list[str]) -> int:
    try:
        main(arguments)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def take_photos(folder: Path, count: int) -> None:
    """Discs on plain ground, in pictures of any shape."""
    folder.mkdir()
    draw = np.random.default_rng(0)
    for index in range(count):
        height, width = draw.integers(60, 120, 2)
        rows, columns = np.indices((height, width))
        photo = np.full((height, width, 3), draw.integers(0, 256, 3), dtype=np.uint8)
        for _ in range(3):
            row, column = draw.integers(15, 45, 2)
            photo[(rows - row) ** 2 + (columns - column) ** 2 < 150] = draw.integers(0, 256, 3)
        Image.fromarray(photo).save(folder / f"{index}.jpg")


def test_own_images(workplace):
    take_photos(workplace / "photos", 12)
    commands = [line for line in blocks("own-images.md").splitlines() if line]
    assert len(commands) <= 10
    for command in commands:
        if command.startswith("coca "):
            assert exit_code(budgeted(command)) == 0, command
    for name in ("sheet.png", "grid.png", "hierarchy.png", "runs/photos/evaluation.json", "found/sheet.png"):
        assert (workplace / name).stat().st_size > 100, name
    assert "resumed at step 1" in (workplace / "runs/photos/log.txt").read_text()
    for photo in (workplace / "photos").iterdir():
        assert Image.open(workplace / "found" / "labels" / f"{photo.stem}.png").size == Image.open(photo).size
    names: dict[str, Any] = {}
    exec(blocks("own-images.md", "python"), names)
    assert names["pixels"].sum() == names["entry"]["area"]
    assert np.array_equal(names["mask"], names["pixels"])


@pytest.mark.slow
def test_scale(workplace):
    """The page's commands, with a table of the same photographs, then its Python."""
    pytest.importorskip("pycocotools", reason="pycocotools is not installed")
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    take_photos(workplace / "photos", 6)
    for photo in (workplace / "photos").iterdir():
        Image.open(photo).save(photo.with_suffix(".png"))
        photo.unlink()
    pictures = [{"image": {"bytes": path.read_bytes()}} for path in sorted((workplace / "photos").iterdir())]
    features = datasets.Features({"image": datasets.Image()})
    datasets.Dataset.from_list(pictures, features).to_parquet(workplace / "photos.parquet")
    commands = [line for line in blocks("scale.md").splitlines() if line]
    assert len(commands) == 4
    for command in commands:
        assert exit_code(shlex.split(command.replace("file://", f"file://{workplace}/"))[1:]) == 0, command
    for folder in ("found", "again", "remote"):
        assert len(list((workplace / folder / "labels").iterdir())) == 6
    examples = doctest.DocTestParser().get_doctest(blocks("scale.md", "python"), {}, "scale.md", "docs/scale.md", 0)
    assert len(examples.examples) > 8
    failures: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(examples, out=failures.append)
    assert not failures, "\n".join(failures)


def test_pages_name_files_that_exist():
    for page in ("python.md", "own-images.md", "scale.md"):
        links = re.findall(r"\]\(([^)#]+)(?:#([^)]+))?\)", (DOCS / page).read_text())
        assert links
        for file, heading in links:
            if "://" in file:
                continue
            titles = re.findall(r"^#+ (.+)$", (DOCS / file).read_text(), flags=re.MULTILINE)
            slugs = [title.lower().replace(" ", "-").replace("`", "") for title in titles]
            assert not heading or heading in slugs, heading
