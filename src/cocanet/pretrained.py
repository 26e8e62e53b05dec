"""Trained models by name or path: `cocanet.load("tetrominoes")`."""

from __future__ import annotations

from difflib import get_close_matches
from importlib.resources import as_file, files
from pathlib import Path

import torch

from cocanet.segment.pretrained_folder import is_pretrained, read_pretrained
from cocanet.segment.segmenter import Segmenter
from cocanet.weights import Trained, open_trained

_SUFFIX = ".safetensors"


def shipped_names() -> list[str]:
    """Names of the weights that come with the package."""
    folder = files("cocanet") / "shipped"
    if not folder.is_dir():
        return []
    return sorted(file.name.removesuffix(_SUFFIX) for file in folder.iterdir() if file.name.endswith(_SUFFIX))


def is_shipped(name_or_path: str | Path) -> bool:
    """Whether this names weights of the package; a path does only where nothing else is there."""
    taken = isinstance(name_or_path, Path) and name_or_path.exists()
    return not taken and str(name_or_path) in shipped_names()


def load(name_or_path: str | Path, device: str = "cpu", *, checkpoint: str = "last") -> Segmenter:
    """A trained model, ready to segment images.

    The name of weights that come with the package, a weights file, a run folder (its `checkpoint` `last` or `best`) or
    a folder that `save_pretrained` wrote. A name is tried first; write ./NAME for a file or folder of that name.
    """
    trained = open_model(name_or_path, device, checkpoint=checkpoint)
    return Segmenter(trained.model, trained.preset, trained.notes, device)


def open_model(name_or_path: str | Path, device: str = "cpu", *, checkpoint: str = "last") -> Trained:
    """The model, its preset and its notes, from whatever `load` takes."""
    _check_device(device)
    trained = _open(name_or_path, checkpoint)
    trained.model.to(device)
    return trained


def _open(name_or_path: str | Path, checkpoint: str) -> Trained:
    if is_shipped(name_or_path):
        with as_file(files("cocanet") / "shipped" / f"{name_or_path}{_SUFFIX}") as file:
            return open_trained(file)
    path = Path(name_or_path)
    if is_pretrained(path):
        return read_pretrained(path)
    if path.exists():
        return open_trained(path, checkpoint=checkpoint)
    raise ValueError(f"there is no file or folder {str(name_or_path)!r}, and no weights of that name{_others(path)}")


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
