"""`coca train`: its flags are the fields of the preset that is named, so they depend on it."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from cocanet import presets
from cocanet.cli import auto
from cocanet.cli.optional import registry
from cocanet.config import DataConfig, ModelConfig, Preset, RunConfig, TrainConfig
from cocanet.presets.auto import DecoderKind, check_slots, choose
from cocanet.runs.folder import DataChoice, RunFolder, Settings, check_new
from cocanet.words import plural


@dataclass(frozen=True)
class Train:
    """Train a model, with checkpoints, validation and pictures of what it finds.

    PRESET is tetrominoes, multi-dsprites, shapestacks, objects-room, clevr6 or clevrtex, or birds or flowers for
    photographs; with -ras (random anchors), -dyna (dynamic slots), -dilated (a quarter of the candidates) or -cpu (the
    quick recipe) behind it, a variant; with slot-attention-, inv-sa-, bo-qsa- or genesis-v2- before it, a rival
    (bo-qsa- alone for photographs). Or auto, for your own images: with --data, a
    folder of pictures or a store, and --slots, the objects in an image at most, it chooses a model that fits. It is
    the first word; `coca train --resume --out RUN` needs none.

    Every field of the preset is a flag. With another --steps, warm-up and half-life keep their share of the run
    unless they are given too.
    """

    preset: tyro.conf.Suppress[str]
    run: tyro.conf.OmitArgPrefixes[RunConfig]
    train: tyro.conf.OmitArgPrefixes[TrainConfig]
    scenes: DataConfig
    model: Annotated[ModelConfig, tyro.conf.AvoidSubcommands]
    data: Path | None = None
    """A store of images, or a folder with the stores train, validation and test; without it, scenes are made."""
    images: int | None = None
    """How many scenes to make for training; as many as published, or 10,000 of those that must be rendered."""
    out: Path | None = None
    """The run's folder; runs/PRESET/seed-N if left out."""
    resume: bool = False
    """Go on with the run in the folder, with the settings it has except for the flags given now."""
    seeds: int = 1
    """Runs one after the other, on consecutive seeds, in the folders seed-N of the one given."""

    def start(self) -> None:
        from cocanet.cli.console import plain_console
        from cocanet.cli.display import RunDisplay
        from cocanet.train.loop import train

        if self.seeds < 1:
            raise ValueError(f"seeds must be at least 1; got {self.seeds}")
        if self.seeds > 1 and self.run.devices * self.run.nodes > 1:
            raise ValueError(f"--seeds {self.seeds} runs in one process; with more devices, start every --seed itself")
        console = plain_console()
        for seed in range(self.run.seed, self.run.seed + self.seeds):
            folder = self.folder(seed)
            console.print(f"{self.preset}, seed {seed}, in {folder}")
            if self.resume and not RunFolder(folder).exists:
                console.print(f"there is no run in {folder} to resume: starting one")
            end = train(self.settings(seed), folder, resume=self.resume, display=RunDisplay())
            console.print(
                f"{folder}: {plural(end.step, 'step')}, {plural(end.images, 'image')}, {end.seconds / 60:.1f} minutes; "
                f"`coca evaluate {folder}` scores it"
            )

    def folder(self, seed: int) -> Path:
        if self.out is not None and self.seeds == 1:
            return self.out
        return (self.out or Path("runs") / self.preset) / f"seed-{seed}"

    def settings(self, seed: int) -> Settings:
        data = str(self.data.resolve()) if self.data else None
        return Settings(
            preset=Preset(self.preset, self.model, self.scenes, self.train),
            run=replace(self.run, seed=seed),
            data=DataChoice(data, self.images),
        )


@dataclass(frozen=True)
class TrainAuto(Train):
    """Train a model that fits your own images: --data and --slots are all it needs to be told."""

    data: Path | None = None
    """A folder of images, or a store of them; needed unless a run is resumed."""
    slots: int = auto.SLOTS
    """Objects in an image at most, with the background."""
    size: int = auto.SIZE
    """Pixels a side that a folder of images is brought to; a store has its own size."""
    decoder: DecoderKind = "pictures"
    """How slots become images: each paints a picture of its own, or all tell one by tokens, for photographs of one
    thing each."""


@dataclass(frozen=True)
class _Resumed:
    """What a command without a preset must say: which run goes on."""

    out: Path | None = None
    resume: bool = False


def parse(arguments: list[str]) -> Train:
    """The command that the arguments after `coca train` ask for; the preset is the first of them."""
    if not arguments or arguments[0].startswith("-"):
        return _parse_without_preset(arguments)
    name, flags = arguments[0], arguments[1:]
    if name == auto.NAME:
        return _parse_auto(flags)
    preset = presets.find(name)
    chosen = _parse(flags, _defaults(preset))
    folder = RunFolder(chosen.folder(chosen.run.seed))
    if not (chosen.resume and folder.exists):
        return replace(chosen, train=_stretched(preset.train, chosen.train))
    return _parse_resumed(name, flags, folder)


def _parse_without_preset(flags: list[str]) -> Train:
    """Help, or a run that goes on: it knows what it is."""
    if {"-h", "--help"} & set(flags):
        return _parse(flags, replace(_defaults(presets.tetrominoes()), preset="PRESET"))
    given, _ = tyro.cli(
        _Resumed, prog="coca train", args=flags, return_unknown_args=True, config=(tyro.conf.FlagCreatePairsOff,)
    )
    if given.resume and given.out is not None:
        folder = RunFolder(given.out)
        return _parse_resumed(folder.read_settings().preset.name, flags, folder)
    raise ValueError(f"which preset? It comes first, `coca train PRESET …`: {presets.names()}, or auto")


def _parse_resumed(name: str, flags: list[str], folder: RunFolder) -> Train:
    """The settings of the run, but for the flags that are given now."""
    before = folder.read_settings()
    if before.preset.name != name:
        raise ValueError(f"{folder.path} is a run of {before.preset.name}, not of {name}")
    data = Path(before.data.path) if before.data.path else None
    return _parse(flags, replace(_defaults(before.preset), run=before.run, data=data, images=before.data.images))


def _parse_auto(flags: list[str]) -> Train:
    asks = {"-h", "--help"} & set(flags)
    own, rest = auto.take([flag for flag in flags if flag not in asks])
    generic = _defaults(choose((64, 64), auto.SLOTS, decoder=own.decoder).preset)
    if asks:
        return _cli(TrainAuto, flags, TrainAuto(**{each.name: getattr(generic, each.name) for each in fields(generic)}))
    slots = auto.SLOTS if own.slots is None else own.slots
    check_slots(slots)  # before minutes are spent on the pictures
    planned = _parse(rest, generic)
    folder = RunFolder(planned.folder(planned.run.seed))
    if planned.resume and folder.exists:
        if own.data is not None:
            rest += ["--data", str(auto.import_images(own.data, own.size))]
        resumed = _parse_resumed(auto.NAME, rest, folder)
        if own.slots not in (None, resumed.model.slots):
            raise ValueError(f"{folder.path} has {resumed.model.slots} slots and cannot be resumed with {own.slots}")
        return resumed
    if own.data is None:
        missing = f"there is no run in {folder.path} to resume; " if planned.resume else ""
        raise ValueError(f"{missing}which images? `coca train auto --data DIR`: a folder of images, or a store")
    if planned.seeds == 1:
        check_new(folder)  # likewise
    store = auto.import_images(own.data, own.size)
    choice = auto.choose_for(own.data, slots, store, own.decoder)
    chosen = _parse(rest, replace(_defaults(choice.preset), data=store))
    auto.tell(choice._replace(preset=chosen.settings(0).preset), chosen.run.minutes)
    return replace(chosen, train=_stretched(choice.preset.train, chosen.train))


def _parse(flags: list[str], default: Train) -> Train:
    return _cli(Train, flags, default)


def _cli(kind: type[Train], flags: list[str], default: Train) -> Train:
    with registry:
        return tyro.cli(
            kind,
            prog=f"coca train {default.preset}",
            default=default,
            args=flags,
            description=inspect.getdoc(kind),
            config=(tyro.conf.FlagCreatePairsOff,),
        )


def _defaults(preset: Preset) -> Train:
    return Train(preset.name, model=preset.model, scenes=preset.data, train=preset.train, run=RunConfig())


def _stretched(before: TrainConfig, chosen: TrainConfig) -> TrainConfig:
    """Fit what was not given to a number of steps that was."""
    if chosen.steps == before.steps:
        return chosen
    fitted = before.stretched(chosen.steps)
    given: dict[str, Any] = {
        entry.name: getattr(chosen, entry.name)
        for entry in fields(TrainConfig)
        if getattr(chosen, entry.name) != getattr(before, entry.name)
    }
    return replace(fitted, **given)
