"""`coca train`: every field of a preset is a flag, so the flags depend on the preset."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import tyro

from cocanet import presets
from cocanet.cli import parsing
from cocanet.config import DataConfig, Fit, ModelConfig, Preset, RunConfig, TrainConfig
from cocanet.presets.auto import Choice, check_slots, choose
from cocanet.words import about, plural

if TYPE_CHECKING:
    from cocanet.io.run_folder import RunFolder, Settings
    from cocanet.progress import Progress
    from cocanet.train.estimate import RunCost

ABOUT = "Train a model on a data set: `coca train PRESET --help` lists what can be set."
AUTO = "auto"
SLOTS, SIZE = 7, 64
FEATURE_SIZE = 128
HELP_ALL = "--help-all"


@dataclass(frozen=True)
class Train:
    """Train a model, with checkpoints, validation and pictures of its predictions.

    PRESET is the first word; `coca train --resume --out RUN` needs none. `auto` chooses a model for your own images:
    --data is a folder of images or a store, --slots the most objects in an image, background included.

    Every field of the preset is a flag. Stages and schedules are shares of the run, so they fit any --steps or
    --minutes.
    """

    preset: tyro.conf.Suppress[str]
    config: Annotated[RunConfig, tyro.conf.arg(name="run"), tyro.conf.OmitArgPrefixes]
    train: Annotated[TrainConfig, tyro.conf.arg(name=""), tyro.conf.AvoidSubcommands]
    scenes: DataConfig
    model: Annotated[ModelConfig, tyro.conf.AvoidSubcommands]
    data: Path | None = None
    """A store of images, or a folder with the stores train, validation and test; scenes are generated if left out."""
    images: int | None = None
    """How many scenes to generate for training; as many as published, or 10,000 of those that must be rendered."""
    out: Path | None = None
    """The run's folder; runs/PRESET/seed-N if left out."""
    resume: bool = False
    """Go on with the run in the folder, with its settings except for the flags given now."""
    restart: bool = False
    """With --resume: begin the run in the folder again at step 0; its checkpoints and metrics are deleted."""
    seeds: int = 1
    """Runs one after the other, on consecutive seeds, in the folders seed-N of the one given."""

    def run(self) -> None:
        from cocanet.cli.progress import ConsoleProgress
        from cocanet.train.loop import train

        self._check()
        progress = ConsoleProgress()
        cost = self.measure()
        if cost is not None:
            progress.say(f"• {cost.text(self.config.minutes)}")
        for seed in range(self.config.seed, self.config.seed + self.seeds):
            folder = self.folder(seed)
            progress.say(f"{self.preset}, seed {seed}, in {folder}")
            progress.cost = cost
            end = train(self.settings(seed), folder, resume=self.resume, restart=self.restart, progress=progress)
            progress.say(f"{folder}: {plural(end.step, 'step')}, {plural(end.images, 'image')}, {about(end.seconds)}")
            self.say_end(folder, progress)

    def say_end(self, folder: Path, progress: Progress) -> None:
        """The last line of a run."""
        progress.say(f"`coca evaluate {folder}` scores it")

    def measure(self) -> RunCost | None:
        """The cost of the run, for the estimate of its time; None for a run that is over sooner than measured."""
        from cocanet.train.estimate import SHORT, estimate_run

        timed = self.config.minutes is not None
        if self.config.accelerator == "cuda" or (timed and self.preset != AUTO) or self.train.steps < SHORT:
            return None
        return estimate_run(Preset(self.preset, self.model, self.scenes, self.train), self._validated())

    def _validated(self) -> int:
        """How many images a validation has; their size is checked."""
        from cocanet.data.splits import VALIDATION_IMAGES, at_size, open_split

        if self.data is None:
            return VALIDATION_IMAGES
        images = open_split(self.scenes, "validation", self.data)
        return len(at_size(images, self.model.image_size, self.scenes, self.data))

    def _check(self) -> None:
        """Mistakes in the order of a reader: values, then data, then the folder."""
        if self.seeds < 1:
            raise ValueError(f"seeds must be at least 1; got {self.seeds}")
        if self.restart and not self.resume:
            raise ValueError("--restart begins a run in its folder again; expected --resume beside it")
        if self.seeds > 1 and self.config.devices * self.config.nodes > 1:
            raise ValueError(f"--seeds {self.seeds} runs in one process; with more devices, start every --seed itself")
        if self.data is not None and not self.data.exists():
            raise ValueError(f"the data folder {self.data} does not exist; expected a folder of images or a store")
        folders = [self.folder(seed) for seed in range(self.config.seed, self.config.seed + self.seeds)]
        if self.resume and not any(_run_folder(folder).exists for folder in folders):
            raise ValueError(nothing_to_resume(folders[0]))
        if not self.resume:
            from cocanet.io.run_folder import check_new

            for folder in folders:
                check_new(_run_folder(folder))

    def folder(self, seed: int) -> Path:
        if self.out is not None and self.seeds == 1:
            return self.out
        return (self.out or Path("runs") / self.preset) / f"seed-{seed}"

    def settings(self, seed: int) -> Settings:
        from cocanet.io.run_folder import DataChoice, Settings

        data = str(self.data.resolve()) if self.data else None
        return Settings(
            preset=Preset(self.preset, self.model, self.scenes, self.train),
            run=replace(self.config, seed=seed),
            data=DataChoice(data, self.images),
        )


@dataclass(frozen=True)
class TrainAuto(Train):
    """Train a model for your own images; only --data is needed. All flags:"""

    data: Path | None = None
    """A folder of images, or a store of them; needed unless a run is resumed."""
    slots: int | None = None
    """Objects in an image at most, background included; chosen by the colours of the images if left out."""
    size: int | None = None
    """Pixels a side to which a folder's images are resized, 64 or with --features 128; a store has its own size."""
    fit: Fit = "stretch"
    """How a folder's photographs become squares."""
    features: bool = False
    """Cluster features of a pretrained network instead of pixels: for photographs (docs/photographs.md)."""

    def say_end(self, folder: Path, progress: Progress) -> None:
        from cocanet.evaluate.gain import gain

        progress.say(gain(folder))
        progress.say(f"`coca segment {folder} PATH… --out DIR` segments photographs with it")


@dataclass(frozen=True)
class AutoFlags:
    """Train a model for your own images, without labels: a folder of photographs becomes masks.

    Only --data is needed. `coca train auto --help-all` lists all flags.
    """

    data: Path | None = None
    """A folder of photographs, or a store of `coca import`."""
    slots: int | None = None
    """Objects in a photograph at most, with the background; chosen by the photographs' colours if left out."""
    size: int | None = None
    """Pixels a side at which photographs are trained: 64, with --features 128. More show smaller objects, slowly."""
    features: bool = False
    """Cluster features of a pretrained network instead of pixels: for photographs. Needs the extra `features`."""
    fit: Fit = "stretch"
    """How photographs become squares: stretch and pad keep all of each, crop cuts off the sides."""
    minutes: float | None = None
    """Stop after this time; 10,000 steps if left out, with --features 600. Ctrl-C stops and saves."""
    out: Path | None = None
    """The run's folder; runs/auto/seed-0 if left out."""
    resume: bool = False
    """Go on with the run in the folder."""
    seed: int = 0
    """Seed of the weights and of the order of the images."""
    seeds: int = 1
    """Runs one after the other, on consecutive seeds."""
    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """What to train on; the fastest there is if left out."""

    @property
    def side(self) -> int:
        """Pixels a side to which a folder's photographs are resized."""
        return self.size or (FEATURE_SIZE if self.features else SIZE)


Command = TypeVar("Command", bound=Train)


def parse(arguments: list[str]) -> Train:
    """The command for the arguments after `coca train`; the preset is the first of them."""
    if not arguments or arguments[0].startswith("-"):
        return _parse_without_preset(arguments)
    name, flags = arguments[0], arguments[1:]
    if name == AUTO:
        return _parse_auto(flags)
    chosen = _cli(flags, defaults(presets.find(name)))
    folder = _run_folder(chosen.folder(chosen.config.seed))
    return _parse_resumed(name, flags, folder) if chosen.resume and folder.exists else chosen


def defaults(preset: Preset) -> Train:
    """The command without any flags."""
    return Train(preset.name, RunConfig(), preset.train, preset.data, preset.model)


TETROMINOES = defaults(presets.tetrominoes())


def _parse_without_preset(flags: list[str]) -> Train:
    """Help, or a run to resume, which knows its preset."""
    if _asks_for_help(flags):
        return _cli(flags, replace(TETROMINOES, preset="PRESET"))
    given = _given(flags)
    if given.resume and given.out is not None:
        folder = _run_folder(given.out)
        return _parse_resumed(folder.read_settings().preset.name, flags, folder)
    raise ValueError(f"which preset? It comes first, `coca train PRESET …`: {presets.names()}")


def _parse_resumed(name: str, flags: list[str], folder: RunFolder) -> Train:
    """The settings of the run, with the flags given now."""
    before = folder.read_settings()
    if before.preset.name != name:
        raise ValueError(f"{folder.path} is a run of {before.preset.name}, not of {name}")
    data = Path(before.data.path) if before.data.path else None
    default = replace(defaults(before.preset), config=before.run, data=data, images=before.data.images)
    return _cli(flags, _for_own_images(default) if name == AUTO else default)


def _parse_auto(flags: list[str]) -> Train:
    """A model for the user's images. Mistakes are found before minutes are spent on the images."""
    if HELP_ALL in flags:
        return _cli(["--help"], _for_own_images(defaults(choose((SIZE, SIZE), SLOTS).preset)))
    if _asks_for_help(flags):
        parsing.parse(AutoFlags, ["--help"], prog="coca train auto")
    given = _given(flags)
    if given.slots is not None:
        check_slots(given.slots)
    if given.data is not None:
        check_images(given.data)
    folders = [_folder(given, seed) for seed in range(given.seed, given.seed + given.seeds)]
    if given.resume:
        folder = next((folder for folder in folders if folder.exists), None)
        if folder is None:
            raise ValueError(nothing_to_resume(folders[0].path))
        return _parse_resumed_auto(flags, given, folder)
    if given.data is None:
        raise ValueError("which images? `coca train auto --data DIR`: a folder of images, or a store")
    if given.seeds == 1:
        from cocanet.io.run_folder import check_new

        check_new(folders[0])
    check_flags(flags, given)
    store = import_images(given.data, given.side, given.fit)
    choice = choose_for(given.data, given.slots, store, features=given.features)
    chosen = _cli(flags, _for_own_images(defaults(choice.preset)))
    print_reasons(choice._replace(preset=chosen.settings(0).preset))
    return replace(chosen, data=store)


def _parse_resumed_auto(flags: list[str], given: AutoFlags, folder: RunFolder) -> Train:
    resumed = _parse_resumed(AUTO, flags, folder)
    if given.slots not in (None, resumed.model.slots):
        raise ValueError(f"{folder.path} has {resumed.model.slots} slots and cannot be resumed with {given.slots}")
    if given.data is None:
        return resumed
    fit = resumed.scenes.fit or given.fit
    return replace(resumed, data=import_images(given.data, given.side, fit))


def nothing_to_resume(folder: Path) -> str:
    return f"there is no run in {folder} to resume; leave out --resume to start one"


def _folder(given: AutoFlags, seed: int) -> RunFolder:
    return _run_folder(replace(TETROMINOES, preset=AUTO, out=given.out, seeds=given.seeds).folder(seed))


def import_images(data: Path, size: int, fit: Fit) -> Path:
    """The store of a user's images, which is written first if `data` is a folder."""
    from cocanet.cli.progress import ConsoleProgress
    from cocanet.data.cache import cached_images

    return cached_images(data, size, ConsoleProgress(), fit=fit)


def check_images(data: Path) -> None:
    """The folder of a user's images is there."""
    from cocanet.data.cache import check_folder

    check_folder(data)


def check_flags(flags: list[str], given: AutoFlags) -> None:
    """A misspelt flag is found before a folder of photographs is imported."""
    from cocanet.data.cache import holds_stores

    if given.data is not None and not holds_stores(given.data):
        choice = choose((given.side, given.side), given.slots or SLOTS, features=given.features)
        _cli(flags, _for_own_images(defaults(choice.preset)))


def choose_for(data: Path, slots: int | None, store: Path, *, features: bool = False) -> Choice:
    """A model for the images in a store."""
    from cocanet.data.cache import fit_of
    from cocanet.data.colour_clusters import slots_needed
    from cocanet.data.splits import open_split
    from cocanet.data.views import size_of

    name = data.resolve().name
    images = open_split(DataConfig(name), "train", store)
    chosen = slots or slots_needed(images)
    choice = choose(
        size_of(images), chosen, name, images.background_labels, fit_of(store), counted=slots is None, features=features
    )
    if len(images) >= choice.preset.train.batch_size:
        return choice
    # A handful of images makes a smaller batch.
    train = replace(choice.preset.train, batch_size=len(images))
    return choice._replace(preset=replace(choice.preset, train=train))


def print_reasons(choice: Choice) -> None:
    """Print the chosen model and the reasons."""
    from cocanet.cli.progress import ConsoleProgress

    progress = ConsoleProgress()
    for reason in choice.reasons:
        progress.say(f"• {reason}")


def _for_own_images(command: Train) -> TrainAuto:
    return TrainAuto(**{each.name: getattr(command, each.name) for each in fields(command)})


def _cli(flags: list[str], default: Command) -> Command:
    description = inspect.getdoc(type(default)) or ""
    if default.preset != AUTO:
        description += f"\n\nPresets are {presets.names()}."
    prog = f"coca train {default.preset}"
    return parsing.parse(type(default), flags, prog=prog, default=default, description=description)


def _given(flags: list[str]) -> AutoFlags:
    both: tuple[AutoFlags, list[str]]
    both = parsing.parse(AutoFlags, flags, prog="coca train auto", return_unknown_args=True)  # type: ignore[assignment]
    return both[0]


def _asks_for_help(flags: list[str]) -> bool:
    return bool({"-h", "--help"} & set(flags))


def _run_folder(path: Path) -> RunFolder:
    from cocanet.io.run_folder import RunFolder

    return RunFolder(path)
