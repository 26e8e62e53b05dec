"""`python -m benchmarks.ablations [DATASET…]`: what each part of the fast recipe adds, in equal numbers of steps.

Every row changes one thing, trains from the same seed, and is scored on the 320 validation scenes. A run at full size
from the start has as many steps as cost the same: a step at twice the side counts four times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tyro

from cocanet import presets
from cocanet.config import Adam, CocaNetConfig, DecoderConfig, Muon, Preset, RunConfig, Stage
from cocanet.io import journal
from cocanet.io.run_folder import DataChoice, RunFolder, Settings
from cocanet.train.loop import train

DATA_SETS = ("objects-room", "shapestacks")
ENCODER = ("encoder_ari_fg", "encoder_msc_fg", "encoder_ari", "encoder_msc")
DECODER = ("decoder_ari_fg", "decoder_msc_fg")
COLUMNS = f"| | ARI-FG | mSC-FG | ARI | mSC | decoder ARI-FG | decoder mSC-FG | MSE |\n|---|{'---:|' * 7}"


@dataclass(frozen=True)
class Choices:
    """Ablations of the fast recipe."""

    data_sets: tyro.conf.Positional[tuple[str, ...]] = DATA_SETS
    steps: int = 600
    seed: int = 0
    rows: tuple[str, ...] = ()
    """Rows by their first words; all of them if left out."""
    images: int | None = None
    """Scenes to generate for training; those of `coca train` if left out."""
    out: Path = Path("runs/ablations")


def _model(preset: Preset) -> CocaNetConfig:
    assert isinstance(preset.model, CocaNetConfig)
    return preset.model


def _decoder(preset: Preset, **changes: Any) -> Preset:
    model = _model(preset)
    assert isinstance(model.decoder, DecoderConfig)
    return replace(preset, model=replace(model, decoder=replace(model.decoder, **changes)))


def _stages(preset: Preset, change: Callable[[Stage], Stage]) -> Preset:
    return replace(preset, train=replace(preset.train, stages=tuple(change(stage) for stage in preset.train.stages)))


def full_size(preset: Preset) -> Preset:
    """The first stage's settings at the full size, for as many steps as cost the same; the last stage stays."""
    full = preset.model.image_size[0]
    *growing, last = preset.train.stages
    cost = sum(stage.share * ((stage.image_size or preset.model.image_size)[0] / full) ** 2 for stage in growing)
    steps = [round(cost * preset.train.steps), round(last.share * preset.train.steps)]
    first, last = (
        replace(stage, share=count / sum(steps), image_size=None)
        for stage, count in zip((growing[0], last), steps, strict=True)
    )
    return replace(preset, train=replace(preset.train, steps=sum(steps), stages=(first, last)))


def adam(stage: Stage) -> Stage:
    assert isinstance(stage.optimiser, Muon)
    return replace(stage, optimiser=Adam(learning_rate=stage.optimiser.adam_learning_rate))


def all_pixels(stage: Stage) -> Stage:
    return replace(stage, losses=tuple(replace(loss, pixels=1.0) for loss in stage.losses))


def paper_backbone(preset: Preset) -> Preset:
    paper = _model(presets.find(preset.name.removesuffix("-fast")))
    return replace(preset, model=replace(_model(preset), backbone=paper.backbone))


def paper_temperature(preset: Preset) -> Preset:
    *below, last = _model(preset).levels
    paper = _model(presets.find(preset.name.removesuffix("-fast"))).levels[-1]
    return replace(preset, model=replace(_model(preset), levels=(*below, replace(last, temperature=paper.temperature))))


ROWS: dict[str, Callable[[Preset], Preset]] = {
    "fast recipe": lambda preset: preset,
    "random anchors (RAS)": lambda preset: replace(preset, model=replace(_model(preset), anchors="random")),
    "the paper's last temperature": paper_temperature,
    "no mask prior": lambda preset: _decoder(preset, prior_from=None),
    "mask prior from the start": lambda preset: _decoder(preset, prior_from=0.0),
    "decoder in the image's frame": lambda preset: _decoder(preset, frame="image"),
    "Adam instead of Muon": lambda preset: _stages(preset, adam),
    "full size from the start": full_size,
    "the paper's backbone": paper_backbone,
    "loss on all pixels": lambda preset: _stages(preset, all_pixels),
}


def scores(preset: Preset, chosen: Choices, folder: Path) -> dict[str, float]:
    """Scores of the last validation of a run, which is trained or resumed first."""
    run = RunConfig(seed=chosen.seed, accelerator="cpu", validate_every=preset.train.steps)
    train(Settings(preset, run, DataChoice(images=chosen.images)), folder, resume=True)
    last = [line for line in journal.read(RunFolder(folder).metrics) if line["kind"] == "validation"][-1]
    found: dict[str, float] = last["scores"]
    return found


def main() -> None:
    chosen = tyro.cli(Choices, prog="python -m benchmarks.ablations", description=Choices.__doc__)
    for data_set in chosen.data_sets:
        print(f"\n{data_set}, {chosen.steps} steps, seed {chosen.seed}\n\n{COLUMNS}", flush=True)
        recipe = presets.find(f"{data_set}-fast")
        recipe = replace(recipe, train=replace(recipe.train, steps=chosen.steps))
        for row, change in ROWS.items():
            if chosen.rows and not row.startswith(chosen.rows):
                continue
            folder = chosen.out / data_set / row.replace(" ", "-").replace("'", "") / f"seed-{chosen.seed}"
            found = scores(change(recipe), chosen, folder)
            cells = [row, *(f"{found[name]:.3f}" for name in (*ENCODER, *DECODER)), f"{found['mse']:.4f}"]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
