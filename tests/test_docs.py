"""The examples of docs/ work as they stand, and links between pages resolve."""

from __future__ import annotations

import doctest
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from cocanet.cli import main
from cocanet.cli import train as train_command
from cocanet.cli.commands import parse
from cocanet.data.generators import make_scenes
from cocanet.data.store_writer import write_store
from tests.data.sources import NoiseSource

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]


def blocks(page: Path, language: str = "") -> str:
    """The fenced blocks of a page in one language; other lines are left blank, so that line numbers stay."""
    lines, inside = [], None
    for line in page.read_text().splitlines():
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


def run_examples(name: str) -> None:
    page = DOCS / name
    examples = doctest.DocTestParser().get_doctest(blocks(page, "python"), {}, name, str(page), 0)
    assert examples.examples
    failures: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(examples, out=failures.append)
    assert not failures, "\n".join(failures)


def test_python_examples(workplace):
    run_examples("python.md")
    for name in ("grid.png", "overlay.png", "compactness.pdf"):
        assert (workplace / name).stat().st_size > 1000, name


def test_the_stages_of_the_fast_recipe():
    run_examples("train.md")


def test_commands_are_understood(workplace, monkeypatch):
    """Every command of every page, but for those with placeholders and those that read a run."""
    store = write_store(NoiseSource(4, size=(64, 64)), workplace / "store").path
    monkeypatch.setattr(train_command, "import_images", lambda data, size, fit: store)
    seen = 0
    for page in PAGES:
        for line in blocks(page).splitlines():
            words = shlex.split(line.split("|")[0], comments=True)
            if words[:1] == ["coca"] and "--resume" not in words and not re.search(r"[$…]", line):
                if "--data" in words:
                    Path(words[words.index("--data") + 1]).mkdir(parents=True, exist_ok=True)
                try:
                    assert parse(words[1:]) is not None
                except (SystemExit, ValueError) as error:
                    pytest.fail(f"{page.name}: {line}: {error}")
                seen += 1
    assert seen > 30


def exit_code(arguments: list[str]) -> int:
    try:
        main(arguments)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def take_photos(folder: Path, count: int) -> None:
    """Discs on a plain background, in images of several shapes."""
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
    exec(blocks(DOCS / "index.md", "python"), names)
    assert names["found"].labels.shape == (80, 96)


def test_own_images(workplace):
    """The page's commands, with a step for every half hour."""
    take_photos(workplace / "photos", 12)
    for line in blocks(DOCS / "own-images.md").splitlines():
        if line.startswith("coca "):
            command = re.sub(r"--minutes (\d+)", lambda match: f"--steps {int(match[1]) // 30} --batch-size 4", line)
            assert exit_code(shlex.split(command, comments=True)[1:]) == 0, line
    for name in ("sheet.png", "grid.png", "hierarchy.png", "runs/photos/evaluation.json", "found/sheet.png"):
        assert (workplace / name).stat().st_size > 100, name
    assert "resumed at step 1" in (workplace / "runs/photos/log.txt").read_text()
    for photo in (workplace / "photos").iterdir():
        assert Image.open(workplace / "found" / "labels" / f"{photo.stem}.png").size == Image.open(photo).size
    names: dict[str, Any] = {}
    exec(blocks(DOCS / "own-images.md", "python"), names)
    assert names["pixels"].sum() == names["entry"]["area"]
    assert np.array_equal(names["mask"], names["pixels"])


def test_export(workplace):
    """The page's Python, with an exported model of the tests."""
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    shutil.copy(ROOT / "tests/fixtures/exported/three.onnx", "objects.onnx")
    Image.fromarray(make_scenes("tetrominoes", count=1, seed=5)[0].image).save("scene.png")
    names: dict[str, Any] = {}
    exec(blocks(DOCS / "export.md", "python"), names)
    assert names["found"].labels.shape == names["parts"].labels.shape == (32, 32)
    assert names["masks"].shape == (2, 4, 8, 12)
    assert np.allclose(names["masks"].sum(1), 1, atol=1e-5)


@pytest.mark.slow
def test_scale(workplace):
    """The page's commands, with a table of the same images, then its Python."""
    pytest.importorskip("pycocotools", reason="pycocotools is not installed")
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    take_photos(workplace / "photos", 6)
    for photo in (workplace / "photos").iterdir():
        Image.open(photo).save(photo.with_suffix(".png"))
        photo.unlink()
    pictures = [{"image": {"bytes": path.read_bytes()}} for path in sorted((workplace / "photos").iterdir())]
    features = datasets.Features({"image": datasets.Image()})
    datasets.Dataset.from_list(pictures, features).to_parquet(workplace / "photos.parquet")
    for line in blocks(DOCS / "scale.md").splitlines():
        if line.startswith("coca segment tetrominoes"):
            command = line.replace("file://", f"file://{workplace}/")
            assert exit_code(shlex.split(command, comments=True)[1:]) == 0, line
    for folder in ("found", "again", "remote"):
        assert len(list((workplace / folder / "labels").iterdir())) == 6
    run_examples("scale.md")


def test_links_resolve_beside_the_code():
    for page in PAGES:
        for file, heading in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)", page.read_text()):
            target = page.parent / file if file else page
            assert target.is_file(), f"{page.name}: {file}"
            if heading:
                titles = re.findall(r"^#+ (.+)$", target.read_text(), flags=re.MULTILINE)
                anchors = [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]
                assert heading in anchors, f"{page.name}: {file}#{heading}"
