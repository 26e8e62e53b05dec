"""`coca train`: its flags are the fields of the preset that is named, so they depend on it."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from cocanet import presets
from cocanet.cli import auto
from cocanet.config import DataConfig, ModelConfig, Preset, RunConfig, TrainConfig
from cocanet.presets.auto import check_slots, choose
from cocanet.runs.folder import DataChoice, RunFolder, Settings
from cocanet.words import plural


@dataclass(frozen=True)
class Train:
    """Train a model, with checkpoints, validation and pictures of what it finds.

    Every field of the preset is a flag. With another --steps, warm-up and half-life keep their share of the run
    unless they are given too.
    """

    preset: tyro.conf.Positional[str]
    """tetrominoes, multi-dsprites, shapestacks, objects-room, clevr6 or clevrtex; with -ras (random anchors), -dyna
    (dynamic slots), -dilated (a quarter of the candidates) or -cpu (the quick recipe) behind it, a variant; with
    slot-attention-, inv-sa-, bo-qsa- or genesis-v2- before it, a rival. Or auto, for your own images: with --data, a
    folder of pictures or a store, and --slots, the objects in an image at most, it chooses a model that fits."""
    model: Annotated[ModelConfig, tyro.conf.AvoidSubcommands]
    scenes: DataConfig
    train: tyro.conf.OmitArgPrefixes[TrainConfig]
    run: tyro.conf.OmitArgPrefixes[RunConfig]
    data: Path | None = None
    """A store of images, or a folder with the stores train, validation and test; without it, scenes are made."""
    images: int | None = None
    """How many scenes to make for training; as many as published, or 10,000 of those that must be rendered."""
    out: Path | None = None
    """The run's folder; runs/PRESET/seed-N if left out."""
    resume: tyro.conf.FlagCreatePairsOff[bool] = False
    """Go on with the run in the folder, with the settings it has except for the flags given now."""
    seeds: int = 1
    """Runs one after the other, on consecutive seeds, in the folders seed-N of the one given."""

    def carry_out(self) -> None:
        from cocanet.train.loop import train

        if self.seeds < 1:
            raise ValueError(f"seeds must be at least 1; got {self.seeds}")
        if self.seeds > 1 and self.run.devices * self.run.nodes > 1:
            raise ValueError(f"--seeds {self.seeds} runs in one process; with more devices, start every --seed itself")
        console = Console()
        for seed in range(self.run.seed, self.run.seed + self.seeds):
            folder = self.folder(seed)
            console.print(f"[bold]{self.preset}[/bold], seed {seed}, in {folder}", highlight=False)
            if self.resume and not RunFolder(folder).exists:
                console.print(f"there is no run in {folder} to resume: starting one", highlight=False, soft_wrap=True)
            end = train(self.settings(seed), folder, resume=self.resume)
            console.print(
                f"{folder}: {plural(end.step, 'step')}, {plural(end.images, 'image')}, {end.seconds / 60:.1f} minutes; "
                f"`coca evaluate {folder}` scores it",
                highlight=False,
                soft_wrap=True,
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
    """A folder of images, or a store of them. Required."""
    slots: int = auto.Auto.slots
    """At most so many objects in an image, with the background."""
    size: int = auto.Auto.size
    """Pixels a side that a folder of images is brought to; a store has its own size."""


def parse(arguments: list[str]) -> Train:
    """The command that the arguments after `coca train` ask for."""
    name = _preset_name(arguments)
    if name == auto.NAME:
        return _parse_auto(arguments)
    preset = presets.find(name)
    chosen = _parse(arguments, _defaults(preset))
    folder = RunFolder(chosen.folder(chosen.run.seed))
    if not (chosen.resume and folder.exists):
        return replace(chosen, train=_stretched(preset.train, chosen.train))
    return _parse_resumed(arguments, chosen, folder)


def _parse_resumed(arguments: list[str], chosen: Train, folder: RunFolder) -> Train:
    """The settings of the run, but for the flags that are given now."""
    before = folder.read_settings()
    if before.preset.name != chosen.preset:
        raise ValueError(f"{folder.path} is a run of {before.preset.name}, not of {chosen.preset}")
    data = Path(before.data.path) if before.data.path else None
    return _parse(arguments, replace(_defaults(before.preset), run=before.run, data=data, images=before.data.images))


def _parse_auto(arguments: list[str]) -> Train:
    generic = _defaults(choose((64, 64), 7).preset)
    if {"-h", "--help"} & set(arguments):
        shown = TrainAuto(**{field.name: getattr(generic, field.name) for field in fields(generic)})
        return tyro.cli(TrainAuto, prog="coca train", default=shown, args=arguments, description=TrainAuto.__doc__)
    if "--resume" in arguments:
        again, rest = auto.take_again(arguments)
        chosen = _parse(rest, generic)
        folder = RunFolder(chosen.folder(chosen.run.seed))
        if folder.exists:
            resumed = _parse_resumed(rest, chosen, folder)
            if again.slots not in (None, slots := resumed.model.slots):
                raise ValueError(f"{folder.path} has {slots} slots and cannot be resumed with {again.slots}")
            return resumed
    flags, rest = auto.take(arguments)
    check_slots(flags.slots)  # before minutes are spent on the pictures
    store = auto.store_of(flags)
    choice = auto.choose_for(flags, store)
    chosen = _parse(rest, replace(_defaults(choice.preset), data=store))
    auto.tell(choice._replace(preset=chosen.settings(0).preset), chosen.run.minutes)
    return replace(chosen, train=_stretched(choice.preset.train, chosen.train))


def _parse(arguments: list[str], default: Train) -> Train:
    return tyro.cli(Train, prog="coca train", default=default, args=arguments, description=inspect.getdoc(Train))


def _defaults(preset: Preset) -> Train:
    return Train(preset.name, preset.model, preset.data, preset.train, RunConfig())


def _preset_name(arguments: list[str]) -> str:
    """The preset among arguments that cannot be parsed before it is known."""
    words = [word for word in arguments if not word.startswith("-")]
    known = [word for word in words if word == auto.NAME or presets.is_known(word)]
    if known:
        return known[0]
    if not words and {"-h", "--help"} & set(arguments):
        return "tetrominoes"
    if not words:
        raise ValueError(f"which preset? `coca train PRESET`: {presets.names()}")
    return words[0]


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
