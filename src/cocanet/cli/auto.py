"""`coca train auto`: what is asked of a user's own images before a model for them can be chosen."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import tyro
from rich.console import Console
from rich.filesize import decimal

from cocanet.auto import Choice, choose
from cocanet.data.commands import fill
from cocanet.data.readers import open_source
from cocanet.data.splits import cache_folder, open_split
from cocanet.data.views import size_of
from cocanet.train.estimate import estimate_step

NAME = "auto"


@dataclass(frozen=True)
class Auto:
    """What `coca train auto` needs to know; its other flags are those of every training."""

    data: Path
    """A folder of images, or a store of them."""
    slots: int = 7
    """At most so many objects in an image, with the background."""
    size: int = 64
    """Pixels a side for a folder of images; a store has its own."""


def take(arguments: list[str]) -> tuple[Auto, list[str]]:
    """The flags that are auto's own, and the arguments without them."""
    flags, rest = tyro.cli(Auto, prog="coca train auto", args=arguments, return_unknown_args=True)
    return flags, rest


def store_of(flags: Auto) -> Path:
    """The user's store; a folder of pictures is imported into the cache first."""
    if not flags.data.exists():
        raise ValueError(f"the data folder {flags.data} does not exist; expected a folder of images or a store")
    if any((flags.data / name / "meta.json").exists() for name in (".", "train")):
        return flags.data
    source = open_source("folder", flags.data, size=flags.size)
    newest = max(path.stat().st_mtime_ns for path in flags.data.rglob("*"))
    state = f"{flags.data.resolve()} {flags.size} {len(source)} {newest}"
    folder = cache_folder() / f"{flags.data.resolve().name}-{hashlib.sha256(state.encode()).hexdigest()[:12]}"
    if not (folder / "meta.json").exists():
        fill(source, folder, workers=1)
    return folder


def choose_for(flags: Auto, store: Path) -> Choice:
    """A model for the images in a store."""
    placeholder = choose((64, 64), flags.slots).preset.data
    images = open_split(placeholder, "train", store)
    name = flags.data.resolve().name
    choice = choose(size_of(images), flags.slots, name, images.background_labels)
    if len(images) < choice.preset.train.batch_size:
        # A user with a handful of pictures shall see something too.
        train = replace(choice.preset.train, batch_size=len(images))
        choice = choice._replace(preset=replace(choice.preset, train=train))
    return choice


def tell(choice: Choice) -> None:
    """Say what was chosen, why, and what a step of it costs."""
    console = Console()
    for reason in choice.reasons:
        console.print(f"• {reason}", highlight=False)
    cost, train = estimate_step(choice.preset), choice.preset.train
    hours = cost.seconds * train.steps / 3600
    console.print(
        f"• a step of {train.batch_size} images takes about {cost.seconds:.2f} s and {decimal(cost.bytes)} of memory "
        f"on this machine's CPU, {train.steps:,} steps {hours:.1f} hours; --minutes sets a limit",
        highlight=False,
    )
