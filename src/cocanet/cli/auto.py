"""`coca train auto`: what is asked of a user's own images before a model for them can be chosen."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import tyro
from rich.console import Console
from rich.filesize import decimal

from cocanet.cli.console import ConsoleWatcher
from cocanet.config import DataConfig, Fit
from cocanet.data.filling import fill
from cocanet.data.readers import open_source
from cocanet.data.splits import cache_folder, is_complete, open_split
from cocanet.data.store_format import META, read_meta
from cocanet.data.views import size_of
from cocanet.presets.auto import Choice, choose
from cocanet.train.estimate import estimate_step
from cocanet.words import about, plural

NAME = "auto"
LISTED = 10
"""Damaged images that are named; the store's `meta.json` has them all."""


@dataclass(frozen=True)
class Auto:
    """What `coca train auto` needs to know; its other flags are those of every training."""

    data: Path
    """A folder of images, or a store of them."""
    slots: int = 7
    """At most so many objects in an image, with the background."""
    size: int = 64
    """Pixels a side for a folder of images; a store has its own."""


@dataclass(frozen=True)
class Again:
    """The same flags of a run that goes on, and has them already."""

    data: Path | None = None
    slots: int | None = None
    size: int = Auto.size


def take(arguments: list[str]) -> tuple[Auto, list[str]]:
    """The flags that are auto's own, and the arguments without them."""
    if not any(word.split("=")[0] == "--data" for word in arguments):
        raise ValueError("which images? `coca train auto --data DIR`: a folder of images, or a store")
    flags, rest = tyro.cli(Auto, prog="coca train auto", args=arguments, return_unknown_args=True)
    return flags, rest


def take_again(arguments: list[str]) -> tuple[Again, list[str]]:
    """What the command of a run that goes on repeats, and the arguments with the store in place of the pictures."""
    flags, rest = tyro.cli(Again, prog="coca train auto", args=arguments, return_unknown_args=True)
    if flags.data is not None:
        rest += ["--data", str(store_of(Auto(flags.data, size=flags.size)))]
    return flags, rest


def store_of(flags: Auto) -> Path:
    """The user's store; a folder of pictures is imported into the cache first."""
    if not flags.data.exists():
        raise ValueError(f"the data folder {flags.data} does not exist; expected a folder of images or a store")
    if not flags.data.is_dir():
        raise ValueError(f"{flags.data} is not a folder; expected a folder of images or a store")
    if any((flags.data / name / "meta.json").exists() for name in (".", "train")):
        return flags.data
    source = open_source("folder", flags.data, size=flags.size)
    newest = max(path.stat().st_mtime_ns for path in flags.data.rglob("*"))
    state = f"{flags.data.resolve()} {flags.size} {len(source)} {newest}"
    folder = cache_folder() / f"{flags.data.resolve().name}-{hashlib.sha256(state.encode()).hexdigest()[:12]}"
    if not is_complete(folder):
        fill(open_source("folder", flags.data, size=flags.size, skip_damaged=True), folder, watcher=ConsoleWatcher())
    _tell_left_out(read_meta(folder).recipe.get("left_out", []))
    return folder


def _tell_left_out(reasons: list[str]) -> None:
    if reasons:
        named = "; ".join(reasons[:LISTED]) + ("; …" if len(reasons) > LISTED else "")
        console = Console(highlight=False, markup=False, soft_wrap=True)
        console.print(f"left out {plural(len(reasons), 'damaged image')}: {named}")


def choose_for(flags: Auto, store: Path) -> Choice:
    """A model for the images in a store."""
    name = flags.data.resolve().name
    images = open_split(DataConfig(name), "train", store)
    choice = choose(size_of(images), flags.slots, name, images.background_labels, _fit_of(store))
    if len(images) < choice.preset.train.batch_size:
        # A user with a handful of pictures shall see something too.
        train = replace(choice.preset.train, batch_size=len(images))
        choice = choice._replace(preset=replace(choice.preset, train=train))
    return choice


def _fit_of(store: Path) -> Fit | None:
    """How the store's images were fitted: those of a folder are cut to their central square."""
    first = store if (store / META).exists() else store / "train"
    return "crop" if read_meta(first).recipe.get("name") == "folder" else None


def tell(choice: Choice, minutes: float | None = None) -> None:
    """Say what was chosen, why, and what a step of it costs."""
    console = Console(highlight=False, soft_wrap=True)
    for reason in choice.reasons:
        console.print(f"• {reason}")
    cost, train = estimate_step(choice.preset), choice.preset.train
    if minutes is None:
        time = f"{plural(train.steps, 'step')} {about(cost.seconds * train.steps)}; --minutes sets a limit"
    else:
        steps = plural(round(60 * minutes / cost.seconds), "step")
        time = f"{plural(minutes, 'minute')}: room for about {steps}"
    console.print(
        f"• a step of {plural(train.batch_size, 'image')} takes about {cost.seconds:.2f} s and "
        f"{decimal(cost.bytes)} of memory on this machine's CPU; {time}"
    )
