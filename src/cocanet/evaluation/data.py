"""Which images a trained model is scored on."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from cocanet.config import Preset
from cocanet.data.splits import at_size, open_split, protocol_part
from cocanet.data.store import Store
from cocanet.data.views import Images, Part
from cocanet.paper_scores import FLOWERS17, data_set_of, data_set_of_recipe
from cocanet.runs.folder import OwnData
from cocanet.watch import QUIET, Watcher
from cocanet.words import plural


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
    preset: Preset, trained_on: OwnData | None, given: Path | None, watcher: Watcher = QUIET
) -> EvaluationData:
    """The folder that was given, or the test part of what the run was trained on; checked to fit the model."""
    if given is not None:
        data = _from_folder(given, preset, trained_on)
    elif trained_on is not None:
        if not trained_on.path.exists():
            raise ValueError(
                f"this run was trained on {trained_on.path}, which is not there any more: "
                "say with --data where it is now"
            )
        data = _own_test_part(trained_on.path, preset, trained_on)
    else:
        images = open_split(preset.data, "test", watcher=watcher)
        name, scenes = data_set_of(preset.data), plural(len(images), "generated scene")
        data = EvaluationData(images, name, name, f"the frozen test split of {name}, {scenes}", generated=True)
    return data._replace(images=at_size(data.images, preset.model.image_size, preset.data, data.path))


def _from_folder(folder: Path, preset: Preset, trained_on: OwnData | None) -> EvaluationData:
    if not folder.exists():
        raise ValueError(f"the data folder {folder} does not exist; `coca scenes` or `coca import` makes one")
    if (folder / "test" / "meta.json").exists():
        shuffle = trained_on is None or trained_on.shuffle
        return _described(open_split(preset.data, "test", folder, shuffle=shuffle), folder, f"{folder / 'test'}")
    if trained_on is not None and not trained_on.path.exists():
        # It may be that very store, moved: a score on its training images would be worth nothing.
        images = open_split(preset.data, "test", folder, shuffle=trained_on.shuffle)
        return _described(images, folder, f"the test part of {folder}, taken for what the run was trained on")
    if trained_on is not None and folder.resolve() == trained_on.path.resolve():
        return _own_test_part(folder, preset, trained_on)
    store = Store(folder)
    if str(store.recipe.get("split") or "").split("/")[-1] == "test":
        return _described(protocol_part(store), folder, f"{folder}")
    return _described(Part(store, 0, len(store)), folder, f"all of {folder}")


def _own_test_part(folder: Path, preset: Preset, trained_on: OwnData) -> EvaluationData:
    images = open_split(preset.data, "test", folder, shuffle=trained_on.shuffle)
    return _described(images, folder, f"the test part of {folder}, whose other images the run was trained on")


def _described(images: Images, folder: Path, description: str) -> EvaluationData:
    assert isinstance(images, Part)
    data_set = data_set_of_recipe(images.store.recipe)
    stand_in = images.store.recipe.get("name") == FLOWERS17
    name = FLOWERS17 if stand_in else data_set or folder.resolve().name
    count, there = len(images), len(images.store)
    generated = "seed" in images.store.recipe
    kind = "generated scene" if generated else "image"
    # A part of a divided store does not begin with its first image.
    cut = f"{count:,} of its {there:,} {kind}s, the protocol's number" if images.start == 0 and count < there else None
    return EvaluationData(images, name, data_set, f"{description}: {cut or plural(count, kind)}", folder, generated)
