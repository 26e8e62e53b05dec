"""What `coca scenes`, `coca import` and `coca data` do."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Int
from rich.console import Console
from rich.filesize import decimal
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from cocanet.data.sample import Source
from cocanet.data.sheet import describe, draw_sheet
from cocanet.data.store import Store
from cocanet.data.store_writer import estimate_bytes, finished_samples, write_store
from cocanet.files import check_folder_writable, existing_parent
from cocanet.labels import UNLABELLED
from cocanet.words import plural


class _Rate(ProgressColumn):
    """Samples a second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.0f}/s" if speed and speed >= 10 else f"{speed:.1f}/s" if speed else "")


def generate(
    name: str,
    *,
    count: int,
    seed: int,
    out: Path,
    workers: int = 1,
    max_objects: int | None = None,
    size: int | None = None,
) -> None:
    """Make scenes into a store."""
    from cocanet.data.scenes import make_scenes

    source = make_scenes(name, count=count, seed=seed, max_objects=max_objects, size=size)
    fill(source, out, workers=workers)


def import_files(
    format: str,
    path: Path,
    *,
    out: Path,
    split: str | None = None,
    size: int | None = None,
    masks: Path | None = None,
    skip_damaged: bool = False,
) -> None:
    """Read published files, or a folder of images, into a store."""
    from cocanet.data.readers import open_source
    from cocanet.data.readers.files import DamagedFile

    console = Console(highlight=False, soft_wrap=True)
    with console.status("looking at the files"):
        source = open_source(format, path, split=split, size=size, masks=masks, skip_damaged=skip_damaged)
    for reason in source.recipe.get("left_out", []):
        console.print(f"left out {reason}")
    try:
        fill(source, out, workers=1)
    except DamagedFile as error:
        if format != "folder":
            raise
        raise DamagedFile(f"{error}; with --skip-damaged such images are left out") from None


def fill(source: Source, out: Path, *, workers: int) -> None:
    """Write `source` to `out` under a progress bar; Ctrl-C leaves what the same command can continue."""
    console = Console()
    done = finished_samples(source, out)
    needed = round(estimate_bytes(source) * max(0, len(source) - done) / len(source))
    check_folder_writable(out)
    free = shutil.disk_usage(existing_parent(out)).free
    samples = plural(len(source), "sample")
    console.print(f"{samples}, about {decimal(needed)} to write to {out} ({decimal(free)} free)")
    if needed > free:
        raise ValueError(f"{out} needs about {decimal(needed)}, but its disk has only {decimal(free)} free")
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeRemainingColumn(),
    )
    try:
        with Progress(*columns, console=console) as bar:
            task = bar.add_task("continuing" if done else "writing", total=len(source))
            store = write_store(
                source, out, workers=workers, progress=lambda samples: bar.update(task, completed=samples)
            )
    except KeyboardInterrupt:
        kept = finished_samples(source, out)
        raise KeyboardInterrupt(
            f"stopped, {out} keeps {kept:,} of {len(source):,} samples; run the same command to continue"
        ) from None
    console.print(f"[bold]{out}[/bold] holds {samples} in {decimal(store.bytes)}")


class Objects(NamedTuple):
    """`images[k]` images show k objects; the smallest object shown has `smallest` pixels."""

    images: Int[np.ndarray, " k"]
    smallest: int
    unlabelled: int
    """Images whose objects nobody marked."""


def count_objects(store: Store) -> Objects:
    """Objects that show in each image of a store, from its labels."""
    images = np.zeros(257 - store.background_labels, dtype=np.int64)
    smallest = store.meta.height * store.meta.width
    unlabelled = 0
    for chunk in _label_chunks(store):
        labels = chunk[(chunk != UNLABELLED).any(axis=(1, 2))]
        unlabelled += len(chunk) - len(labels)
        flat = labels.reshape(len(labels), -1).astype(np.int32)
        flat += 256 * np.arange(len(labels), dtype=np.int32)[:, None]
        pixels = np.bincount(flat.reshape(-1), minlength=256 * len(labels)).reshape(-1, 256)
        pixels = pixels[:, store.background_labels :]
        images += np.bincount((pixels > 0).sum(axis=1), minlength=len(images))
        smallest = min(smallest, int(pixels[pixels > 0].min(initial=smallest)))
    return Objects(np.trim_zeros(images, "b"), smallest, unlabelled)


def _label_chunks(store: Store, rows: int = 256) -> Iterator[np.ndarray]:
    for start in range(0, len(store), rows):
        yield store.gather(np.arange(start, min(start + rows, len(store))))[1]


def print_info(path: Path) -> None:
    """What a store holds, after checking that it is what was written."""
    console = Console()
    with console.status("checking hashes"):
        store = Store(path)
    meta = store.meta
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_row("recipe", describe(store))
    table.add_row("images", f"{len(store):,} of {meta.width}×{meta.height}")
    shards = plural(len(meta.shards), "shard")
    table.add_row("on disk", f"{decimal(store.bytes)} in {shards}, all sha256 as written")
    if not store.has_labels:
        table.add_row("labels", "none")
    else:
        table.add_row("labels", f"{store.background_labels} background, then objects")
        with console.status("counting objects"):
            objects = count_objects(store)
        numbers = np.flatnonzero(objects.images)
        mean = np.average(np.arange(len(objects.images)), weights=objects.images)
        if len(numbers) == 1:
            table.add_row("objects", f"{numbers[0]} in every image")
        else:
            table.add_row("objects", f"{numbers[0]} to {numbers[-1]} in an image, {mean:.2f} on average")
            for number in numbers:
                table.add_row("", f"{number:3d} in {plural(int(objects.images[number]), 'image')}")
        if objects.unlabelled:
            table.add_row("unlabelled", f"{objects.unlabelled:,} of the images")
        if numbers.max() > 0:
            table.add_row("smallest", f"{objects.smallest} pixels of an object show")
    factors = store[0].factors
    table.add_row("factors", ", ".join(factors) if factors else "none")
    console.print(table)


def save_sheet(path: Path, out: Path, *, count: int, first: int) -> None:
    """Draw images beside coloured masks into a picture file."""
    check_folder_writable(out.parent)
    sheet = draw_sheet(Store(path, verify=False), count=count, first=first)
    out.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(out)
    print(f"{out}: {sheet.width}×{sheet.height}")
