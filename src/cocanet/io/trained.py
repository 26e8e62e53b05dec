"""A trained model from whatever holds one: a name, a weights file, a run folder, a folder in the hub's layout."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from difflib import get_close_matches
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Literal

import torch

from cocanet.config import Preset
from cocanet.io.hub import WEIGHTS, is_pretrained, read_pretrained
from cocanet.io.weights import check_weights, load_into, read_weights
from cocanet.models.build import build
from cocanet.models.model import ObjectModel

Checkpoint = Literal["last", "best"]
_SUFFIX = ".safetensors"


@dataclass(frozen=True)
class Trained:
    """A model with trained weights, and where they come from."""

    model: ObjectModel
    preset: Preset
    path: Path
    notes: Mapping[str, Any]

    @property
    def step(self) -> int | None:
        """How many steps it was trained for, if that was noted."""
        step = self.notes.get("step")
        return step if isinstance(step, int) else None

    def as_preset(self, preset: Preset) -> Trained:
        """The same weights in a model that is configured otherwise, where no weight depends on the difference."""
        if preset == self.preset:
            return self
        model = build(preset)
        load_into(model, self.model.state_dict(), self.path)
        device = next(self.model.parameters()).device
        return replace(self, model=model.to(device).eval(), preset=preset)


def shipped_names() -> list[str]:
    """Names of the weights that come with the package."""
    folder = files("cocanet") / "shipped"
    if not folder.is_dir():
        return []
    return sorted(file.name.removesuffix(_SUFFIX) for file in folder.iterdir() if file.name.endswith(_SUFFIX))


def is_shipped(source: str | Path) -> bool:
    """Whether this names weights of the package: a string may, a `Path` never does."""
    return isinstance(source, str) and source in shipped_names()


def open_model(
    source: str | Path,
    device: str = "cpu",
    *,
    checkpoint: Checkpoint = "last",
    change: Callable[[Preset], Preset] | None = None,
) -> Trained:
    """The model, its preset and its notes, ready to use.

    A string that names weights of the package means those; anything else, and every `Path`, is a weights file, a run
    folder (its `checkpoint`) or a folder that `save_pretrained` wrote. Write ./NAME for a file of a shipped name.
    `change` alters the preset before the model is built, where no weight depends on the difference.
    """
    _check_device(device)
    with ExitStack() as stack:
        if is_shipped(source):
            file = stack.enter_context(as_file(files("cocanet") / "shipped" / f"{source}{_SUFFIX}"))
            found = read_weights(file)
        elif is_pretrained(Path(source)):
            file, found = Path(source) / WEIGHTS, read_pretrained(Path(source))
        else:
            file = _file_of(Path(source), str(source), checkpoint)
            found = read_weights(file)
        preset = change(found.preset) if change else found.preset
        with torch.device("meta"):
            check_weights(build(preset).state_dict(), found.weights, file)
        model = build(preset)
        load_into(model, found.weights, file)
    return Trained(model.to(device).eval(), preset, file, found.notes)


def _file_of(path: Path, given: str, checkpoint: Checkpoint) -> Path:
    if not path.exists():
        raise ValueError(f"there is no file or folder {given!r}, and no weights of that name{_others(path)}")
    if path.suffix in (".onnx", ".pt2"):
        raise ValueError(f"{path} is an exported model, which only segmenting can use, as .onnx; expected weights")
    if not path.is_dir():
        return path
    file = path / f"{checkpoint}{_SUFFIX}"
    if not file.exists():
        below = sorted(found.parent.name for found in path.glob(f"*/{file.name}"))
        hint = f"; there are runs in it: {', '.join(below)}" if below else ""
        raise ValueError(f"{path} is not a run folder with a checkpoint: it has no {file.name}{hint}")
    return file


def _others(path: Path) -> str:
    names = shipped_names()
    close = get_close_matches(path.name.lower(), names, n=1)
    nearest = f"; did you mean {close[0]!r}?" if close else "."
    return f"{nearest} The package has {', '.join(names) or 'no weights yet'}"


def _check_device(device: str) -> None:
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"device {device!r} cannot be used here: {reason}") from None
