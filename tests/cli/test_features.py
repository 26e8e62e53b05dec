"""A network of timm with random weights goes through every command."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.skipif(find_spec("timm") is None, reason="timm is not installed: pip install --no-deps timm")
def test_features_of_timm_from_training_to_export(tmp_path):
    pytest.importorskip("onnxscript", reason="exporting needs the extra cocanet[onnx]")
    run = [sys.executable, "-m", "tests.feature_run", str(tmp_path)]
    done = subprocess.run(run, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "trained by          reconstruction of features of vit_tiny_patch16_224\n" in done.stdout
    assert "TokenCut on features" in done.stdout
    assert done.stdout.endswith("labels that differ in the exported model: 0\n")
