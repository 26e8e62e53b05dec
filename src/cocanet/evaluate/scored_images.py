"""The images that a model is scored on, and the facts about them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from cocanet.config import Preset
from cocanet.data.readers import FORMATS, OWN
from cocanet.data.splits import at_size, fingerprint, open_split, protocol_part
from cocanet.data.store import Store
from cocanet.data.views import Images, Part
from cocanet.evaluate.provenance import KINDS, Source
from cocanet.paper_scores import FLOWERS17, data_set_of, data_set_of_recipe
from cocanet.progress import QUIET, Progress
from cocanet.words import plural

PUBLISHED = (*(format for format in FORMATS if format not in OWN), FLOWERS17)
"""Names of stores that were imported from published files."""


@dataclass(frozen=True)
class ScoredImages:
    """The images that a model was scored on."""

    name: str
    """The paper's name of the data set if it is one of the paper's, else the folder's name."""
    data_set: str | None
    """The paper's data set, whose published scores compare with ours."""
    path: str | None
    description: str
    has_labels: bool
    background_labels: int
    sha256: str
    """Hash of all pixels and labels."""
    source: Source
    single: bool = False
    """Whether every image shows one object on a background."""
    elsewhere: bool = False
    """Whether they are others than the model's own test split."""


def choose_images(
    preset: Preset,
    trained_on: Path | None,
    given: Path | None,
    progress: Progress = QUIET,
    *,
    first: int | None = None,
) -> tuple[Images, ScoredImages]:
    """The images of the folder that was given, or the test split of what the run was trained on.

    `first` leaves only so many of them.
    """
    if given is not None:
        path, (images, description) = given, _from_folder(given, preset, trained_on)
    elif trained_on is not None:
        if not trained_on.exists():
            raise ValueError(
                f"this run was trained on {trained_on}, which does not exist any more: name its new place with --data"
            )
        path, (images, description) = trained_on, _own_test_part(trained_on, preset)
    else:
        images, name = open_split(preset.data, "test", progress=progress), data_set_of(preset.data)
        description = f"the frozen test split of {name}, {plural(len(images), KINDS['generated'])}"
        images, description = _first(images, first, description)
        return _described(images, preset, None, name, name, "generated", description)
    assert isinstance(images, Part)
    recipe, count, there = images.store.recipe, len(images), len(images.store)
    source: Source = "generated" if "seed" in recipe else "published" if recipe.get("name") in PUBLISHED else "own"
    data_set = data_set_of_recipe(recipe)
    name = FLOWERS17 if recipe.get("name") == FLOWERS17 else data_set or path.resolve().name
    # A part of a divided store does not begin with its first image.
    some = images.start == 0 and count < there
    taken = f"{count:,} of its {there:,} {KINDS[source]}s, the protocol's number" if some else None
    description = f"{description}: {taken or plural(count, KINDS[source])}"
    images, description = _first(images, first, description)
    images, data = _described(images, preset, path, name, data_set, source, description)
    return images, replace(data, elsewhere=_is_elsewhere(path, trained_on))


def _first(images: Images, count: int | None, description: str) -> tuple[Images, str]:
    """The first so many images, which the description then says."""
    assert isinstance(images, Part)
    if count is None or count >= len(images):
        return images, description
    return replace(images, stop=images.start + count), f"the first {count:,} of {description}"


def _described(
    images: Images, preset: Preset, path: Path | None, name: str, data_set: str | None, source: Source, description: str
) -> tuple[Images, ScoredImages]:
    """The images at the model's size, and the facts about them."""
    images = at_size(images, preset.model.image_size, preset.data, path)
    return images, ScoredImages(
        name=name,
        data_set=data_set,
        path=None if path is None else str(path),
        description=description,
        has_labels=images.has_labels,
        background_labels=images.background_labels,
        sha256=fingerprint(images),
        source=source,
    )


def _from_folder(folder: Path, preset: Preset, trained_on: Path | None) -> tuple[Images, str]:
    if not folder.exists():
        raise ValueError(f"the data folder {folder} does not exist; `coca scenes` or `coca import` makes one")
    if (folder / "test" / "meta.json").exists():
        return open_split(preset.data, "test", folder), f"{folder / 'test'}"
    if trained_on is not None and not trained_on.exists():
        # It may be that very store, moved: scores of its training images would be worthless.
        images = open_split(preset.data, "test", folder)
        return images, f"the test part of {folder}, presumably what the run was trained on"
    if trained_on is not None and folder.resolve() == trained_on.resolve():
        return _own_test_part(folder, preset)
    store = Store(folder)
    if str(store.recipe.get("split") or "").split("/")[-1] == "test":
        return protocol_part(store), f"{folder}"
    return Part(store, 0, len(store)), f"all of {folder}"


def _own_test_part(folder: Path, preset: Preset) -> tuple[Images, str]:
    images = open_split(preset.data, "test", folder)
    return images, f"the test part of {folder}, whose other images the run was trained on"


def _is_elsewhere(path: Path, own: Path | None) -> bool:
    return own is None or (own.exists() and path.resolve() != own.resolve())
