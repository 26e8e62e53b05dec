"""`coca train auto`: a model chosen for a user's own images, and what it will cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import tyro
from rich.filesize import decimal

from cocanet.cli.console import ConsoleWatcher, plain_console
from cocanet.config import DataConfig
from cocanet.data.own_images import fit_of, store_of
from cocanet.data.splits import open_split
from cocanet.data.views import size_of
from cocanet.presets.auto import Choice, DecoderKind, choose
from cocanet.words import about, plural

NAME = "auto"
SLOTS, SIZE = 7, 64


@dataclass(frozen=True)
class Auto:
    """What `coca train auto` has to be told besides the flags of every training."""

    data: Path | None = None
    slots: int | None = None
    size: int = SIZE
    decoder: DecoderKind = "pictures"


def take(arguments: list[str]) -> tuple[Auto, list[str]]:
    """The flags that are auto's own, and the arguments without them."""
    flags, rest = tyro.cli(Auto, prog="coca train auto", args=arguments, return_unknown_args=True)
    return flags, rest


def import_images(data: Path, size: int) -> Path:
    """The store of a user's images."""
    return store_of(data, size, ConsoleWatcher())


def choose_for(data: Path, slots: int, store: Path, decoder: DecoderKind = "pictures") -> Choice:
    """A model for the images in a store."""
    name = data.resolve().name
    images = open_split(DataConfig(name), "train", store)
    choice = choose(size_of(images), slots, name, images.background_labels, fit_of(store), decoder)
    if len(images) < choice.preset.train.batch_size:
        # A user with a handful of pictures shall see something too.
        train = replace(choice.preset.train, batch_size=len(images))
        choice = choice._replace(preset=replace(choice.preset, train=train))
    return choice


def tell(choice: Choice, minutes: float | None = None) -> None:
    """Say what was chosen, why, and what it costs."""
    from cocanet.train.estimate import estimate_step
    from cocanet.train.loop import VALIDATION_SHARE

    console = plain_console()
    for reason in choice.reasons:
        console.print(f"• {reason}")
    cost, train = estimate_step(choice.preset), choice.preset.train
    # Validation and pictures take their share of the clock.
    share = 1 - VALIDATION_SHARE
    if minutes is None:
        whole = about(cost.seconds * train.steps / share)
        time = f"{plural(train.steps, 'step')} {whole}: --minutes sets a limit, Ctrl-C stops and saves"
    else:
        time = (
            f"{plural(minutes, 'minute')}: room for about {plural(round(60 * minutes * share / cost.seconds), 'step')}"
        )
    console.print(
        f"• a step of {plural(train.batch_size, 'image')} takes about {cost.seconds:.2f} s and "
        f"{decimal(cost.bytes)} of memory on this machine's CPU; {time}"
    )
