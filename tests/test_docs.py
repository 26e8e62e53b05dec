"""What the pages of docs/ show works as it stands there."""

from __future__ import annotations

import doctest
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tyro
from PIL import Image

from cocanet.cli import Command, main
from cocanet.data.scenes import make_scenes

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]


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


def test_start_here(workplace):
    Image.fromarray(make_scenes("tetrominoes", count=1, seed=5)[0].image).resize((96, 80)).save("scene.png")
    names: dict[str, Any] = {}
    exec(blocks("index.md", "python"), names)
    assert names["found"].labels.shape == (80, 96)
    assert 1 <= len(names["found"].objects) <= 3


@pytest.mark.parametrize("page", ["index.md", "install.md", "export.md"])
def test_commands_of_the_first_pages_are_understood(page):
    lines = [shlex.split(line, comments=True) for line in blocks(page).splitlines() if line]
    assert lines
    for line in lines:
        assert line[0] in ("coca", "pip")
        if line[0] == "coca":
            assert tyro.cli(Command, args=line[1:]) is not None


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


def test_export(workplace):
    """The page's Python, with an export of the tests."""
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    shutil.copy(ROOT / "tests/fixtures/exported/three.onnx", "objects.onnx")
    Image.fromarray(make_scenes("tetrominoes", count=1, seed=5)[0].image).save("scene.png")
    names: dict[str, Any] = {}
    exec(blocks("export.md", "python"), names)
    assert names["found"].labels.shape == names["parts"].labels.shape == (32, 32)
    assert names["masks"].shape == (2, 4, 8, 12)
    assert np.allclose(names["masks"].sum(1), 1, atol=1e-5)


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_name_files_that_exist(page):
    """As they are read beside the code, where nothing is built."""
    for file, heading in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)", page.read_text()):
        target = page.parent / file if file else page
        assert target.is_file(), file
        if heading:
            titles = re.findall(r"^#+ (.+)$", target.read_text(), flags=re.MULTILINE)
            assert heading in [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles], heading
