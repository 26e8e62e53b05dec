"""Which images a trained model is scored on."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from cocanet.config import Preset
from cocanet.data.splits import at_size, open_split
from cocanet.data.store import Store
from cocanet.data.views import Images, Part
from cocanet.paper_scores import data_set_of, data_set_of_recipe
from cocanet.watch import QUIET, Watcher


class EvaluationData(NamedTuple):
    """Images to score a model on."""

    images: Images
    name: str
    """The paper's name for the data set if it is one of its own, else the folder's."""
    data_set: str | None
    """The paper's data set, whose published scores can stand beside ours."""
    description: str
    path: Path | None = None
    generated: bool = False
    """Whether they are scenes that were generated, not images as published or a user's own."""


def choose_data(
    preset: Preset, trained_on: Path | None, given: Path | None, watcher: Watcher = QUIET
) -> EvaluationData:
    """The folder that was given, or the test part of what the run was trained on; checked to fit the model."""
    if given is not None:
        data = _from_folder(given, preset, trained_on)
    elif trained_on is not None:
        if not trained_on.exists():
            raise ValueError(
                f"this run was trained on {trained_on}, which is not there any more: say with --data where it is now"
            )
        data = _test_part(trained_on, preset, f"the test part of {trained_on}, which the run was trained on")
    else:
        images = open_split(preset.data, "test", watcher=watcher)
        name = data_set_of(preset.data)
        text = f"the frozen test split of {name}, {len(images):,} generated scenes"
        data = EvaluationData(images, name, name, text, generated=True)
    return data._replace(images=at_size(data.images, preset.model.image_size, preset.data, data.path))


def _from_folder(folder: Path, preset: Preset, trained_on: Path | None) -> EvaluationData:
    if not folder.exists():
        raise ValueError(f"the data folder {folder} does not exist; `coca scenes` or `coca import` makes one")
    if (folder / "test" / "meta.json").exists():
        return _test_part(folder, preset, f"{folder / 'test'}")
    if trained_on is not None and not trained_on.exists():
        # It may be that very store, moved: a score on its training images would be worth nothing.
        return _test_part(folder, preset, f"the test part of {folder}, taken for what the run was trained on")
    if trained_on is not None and folder.resolve() == trained_on.resolve():
        return _test_part(folder, preset, f"the test part of {folder}, which the run was trained on")
    store = Store(folder)
    return _described(Part(store, 0, len(store)), folder, f"all of {folder}")


def _test_part(folder: Path, preset: Preset, description: str) -> EvaluationData:
    return _described(open_split(preset.data, "test", folder), folder, description)


def _described(images: Images, folder: Path, description: str) -> EvaluationData:
    assert isinstance(images, Part)
    data_set = data_set_of_recipe(images.store.recipe)
    name = data_set or folder.resolve().name
    generated = "seed" in images.store.recipe
    kind = "generated scenes" if generated else "images"
    return EvaluationData(images, name, data_set, f"{description}: {len(images):,} {kind}", folder, generated)
