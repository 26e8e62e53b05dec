"""Optional packages are neither required nor imported where they are not used."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cocanet.cli import main
from tests.predict.models import weights_file

ROOT = Path(__file__).parents[1]
OPTIONAL = ("pyarrow", "ray", "huggingface_hub", "datasets", "pandas")


def test_a_plain_install_requires_no_extra():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {re.split(r"[\[<>=]", need)[0].lower().replace("-", "_") for need in project["dependencies"]}
    assert not wanted & {*OPTIONAL, "fsspec", "fastapi", "uvicorn", "mujoco", "onnx", "onnxruntime"}
    extras = project["optional-dependencies"]
    assert [need.split(">")[0] for need in extras["parquet"]] == ["pyarrow"]
    assert [need.split(">")[0] for need in extras["datasets"]] == ["datasets"]


def brought_by(names: list[str]) -> set[str]:
    """Packages that these need, and those need, as far as they are installed here; no extra of any."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = re.split(r"[\s<>=!~;\[(]", waiting.pop(), maxsplit=1)[0].lower().replace("_", "-")
        if name not in found:
            found.add(name)
            with suppress(PackageNotFoundError):
                waiting += [line for line in requires(name) or [] if "extra ==" not in line]
    return found


def test_no_runtime_for_exports_without_the_extra():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    runtimes = {"onnx", "onnxruntime", "onnxscript"}
    assert not brought_by(project["dependencies"]) & runtimes
    assert runtimes <= brought_by(project["optional-dependencies"]["onnx"])


def test_segmenting_files_loads_none(tmp_path):
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / "a.png")
    weights_file(tmp_path / "w.safetensors")
    script = f"""
import os, sys
for name in {OPTIONAL!r}:
    sys.modules[name] = None
from cocanet.cli import main
import cocanet.predict.columns
from cocanet.data.store import Store
os.chdir({str(tmp_path)!r})
try:
    main(["segment", "w.safetensors", "a.png"])
except SystemExit as end:
    assert end.code == 0
import cocanet
cocanet.load("w.safetensors").save_pretrained("mine")
assert cocanet.Segmenter.from_pretrained("mine").segment("a.png").labels.shape == (8, 8)
"""
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize(
    ("missing", "module", "arguments", "extra"),
    [
        ("pyarrow", "cocanet.data.readers.parquet", ["import", "parquet", "x.parquet", "--out", "s"], "parquet"),
        ("pyarrow", "cocanet.data.readers.parquet", ["segment", "w.safetensors", "x.parquet"], "parquet"),
        ("pyarrow", "cocanet.predict.parquet", ["segment", "w.safetensors", "a.png", "--format", "parquet"], "parquet"),
        ("ray", "cocanet.predict.ray", ["segment", "w.safetensors", "a.png", "--engine", "ray"], "ray"),
    ],
)
def test_a_missing_extra_is_one_line_with_the_fix(tmp_path, monkeypatch, capsys, missing, module, arguments, extra):
    monkeypatch.chdir(tmp_path)
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / "a.png")
    (tmp_path / "x.parquet").write_bytes(b"")
    weights_file(tmp_path / "w.safetensors")
    for name in [name for name in sys.modules if name.split(".")[0] == missing]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith("coca: ")
    assert said.endswith(f"with {missing}, which is not installed: pip install 'cocanet[{extra}]'\n")
    assert not (tmp_path / "segments").exists()
