"""The notebook: ten cells that run from top to bottom in an empty folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from PIL import Image

NOTEBOOK = Path(__file__).parents[1] / "notebooks" / "start.ipynb"


def test_the_notebook_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    content = json.loads(NOTEBOOK.read_text())
    assert len(content["cells"]) == 10
    names: dict[str, Any] = {}
    for cell in content["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [], "results belong to whoever runs it"
            exec("".join(cell["source"]).replace("STEPS = 300", "STEPS = 2"), names)
    assert len(names["found"].objects) >= 2
    assert names["own"].labels.shape == (128, 128)
    assert Image.open("hierarchy.png").width > 300
    assert "mean squared error" in capsys.readouterr().out
