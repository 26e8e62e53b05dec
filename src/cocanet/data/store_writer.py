"""Write a source into a store, shard by shard, so that an interrupted run continues where it stopped."""

from __future__ import annotations

import contextlib
import multiprocessing
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int
from rich.filesize import decimal

from cocanet.config.serialization import first_difference
from cocanet.data.sample import Sample, Source
from cocanet.data.store import Store
from cocanet.data.store_format import (
    META,
    PARTS,
    StoreMeta,
    check_sizes,
    npy_pieces,
    pack_factors,
    plain_json,
    read_meta,
    shard_file,
    write_meta,
)
from cocanet.files import FileEntry, check_folder_writable, existing_parent, locked, write_atomically
from cocanet.progress import QUIET, Progress
from cocanet.runtime import without_interrupts, without_script
from cocanet.words import plural

SHARD_BYTES = 16 * 2**20
_CHUNK, _LARGE_CHUNK = 32, 512


@runtime_checkable
class ManySource(Protocol):
    """A source that makes many samples faster together than one by one."""

    def many(self, indices: Int[np.ndarray, " b"]) -> list[Sample]: ...


def write_store(
    source: Source,
    out: Path,
    *,
    shard_size: int | None = None,
    workers: int = 1,
    progress: Progress = QUIET,
) -> Store:
    """Write all of `source` to the folder `out`, or the part that an interrupted run has not written.

    The bytes on disk depend neither on `workers` nor on interruptions. More than one worker needs a source that can be
    pickled; a script that defines it itself must be under `if __name__ == "__main__"`.
    """
    if workers < 1:
        raise ValueError(f"workers must be at least 1, not {workers}")
    planned = _plan(source, out, shard_size)
    done = _same_store(out, planned).finished if (out / META).exists() else 0
    _check_space(source, out, len(source) - done, progress)
    out.mkdir(parents=True, exist_ok=True)
    try:
        with locked(out), progress.bar("continuing" if done else "writing", len(source)) as update:
            meta = _resume(out, planned)
            shards, done = list(meta.shards), meta.finished
            todo = [shard for shard, entry in enumerate(shards) if entry is None]
            update(done)
            for event in _run(source, out, meta, todo, min(workers, max(1, len(todo)))):
                if isinstance(event, int):
                    done += event
                    update(done)
                else:
                    shards[event[0]] = event[1]
                    meta = replace(meta, shards=tuple(shards))
                    write_meta(out, meta)
    except KeyboardInterrupt:
        kept = read_meta(out).finished if (out / META).exists() else 0
        raise KeyboardInterrupt(
            f"stopped, {out} keeps {kept:,} of {len(source):,} samples; run the same command to continue"
        ) from None
    store = Store(out, verify=False)
    progress.say(f"{out} holds {plural(len(store), 'sample')} in {decimal(store.bytes)}")
    return store


def estimate_bytes(source: Source) -> int:
    """Estimated size of the store of `source`, from its first sample."""
    first = source[0]
    factors = sum(np.asarray(values).nbytes for values in first.factors.values())
    return len(source) * (first.image.nbytes + first.labels.nbytes + factors)


def _check_space(source: Source, out: Path, missing: int, progress: Progress) -> None:
    needed = round(estimate_bytes(source) * missing / len(source))
    check_folder_writable(out)
    free = shutil.disk_usage(existing_parent(out)).free
    progress.say(f"{plural(len(source), 'sample')}, about {decimal(needed)} to write to {out} ({decimal(free)} free)")
    if needed > free:
        raise ValueError(f"{out} needs about {decimal(needed)}, but its disk has only {decimal(free)} free")


def _plan(source: Source, out: Path, shard_size: int | None) -> StoreMeta:
    """The `meta.json` of `source` with no shard finished; shards have the size of an interrupted run's."""
    if len(source) == 0:
        raise ValueError("the source has no samples, so there is nothing to store")
    if shard_size is None and (out / META).exists():
        shard_size = read_meta(out).shard_size
    height, width = source[0].labels.shape
    size = shard_size if shard_size is not None else max(1, SHARD_BYTES // (height * width * 4))
    if size < 1:
        raise ValueError(f"shard_size must be at least 1, not {size}")
    return StoreMeta(
        recipe=plain_json(dict(source.recipe)),
        count=len(source),
        height=height,
        width=width,
        background_labels=source.background_labels,
        has_labels=source.has_labels,
        shard_size=size,
        shards=(None,) * -(-len(source) // size),
    )


def _resume(out: Path, planned: StoreMeta) -> StoreMeta:
    """Continue the store in `out` if it is the beginning of the same one; else start it."""
    for leftover in out.glob("*.tmp"):
        if leftover.name.startswith((META, "shard-")):
            leftover.unlink(missing_ok=True)
    if (out / META).exists():
        found = _same_store(out, planned)
        if found is not planned:
            return found
    elif foreign := next(iter(sorted(out.iterdir())), None):
        raise ValueError(f"{out} is neither empty nor a store: it contains {foreign.name}")
    write_meta(out, planned)
    return planned


def _same_store(out: Path, planned: StoreMeta) -> StoreMeta:
    """The store in `out`, which may differ from the plan in its finished shards only.

    A store without a finished shard gives way to the plan, since nothing is lost.
    """
    found = read_meta(out)
    if not any(found.shards):
        return planned
    for name in (field.name for field in fields(planned)):
        there, wanted = getattr(found, name), getattr(planned, name)
        if name != "shards" and there != wanted:
            difference = first_difference(there, wanted, name) or f"another {name}"
            raise ValueError(f"{out} holds a store with {difference}; choose another folder")
    check_sizes(out, found)
    return found


Event = int | tuple[int, dict[str, FileEntry]]
"""A number of samples that were made, or a finished shard with its files."""


def _run(source: Source, out: Path, meta: StoreMeta, todo: list[int], workers: int) -> Iterator[Event]:
    if workers > 1:
        yield from _run_workers(source, out, meta, todo, workers)
    else:
        for shard in todo:
            yield from _write_shard(source, out, meta, shard)


def _write_shard(source: Source, out: Path, meta: StoreMeta, shard: int) -> Iterator[Event]:
    count, first = meta.samples_in(shard), shard * meta.shard_size
    images = np.empty((count, meta.height, meta.width, 3), dtype=np.uint8)
    labels = np.empty((count, meta.height, meta.width), dtype=np.uint8)
    factors = []
    # Large chunks are faster where samples are made together; small ones report progress sooner.
    chunk = _LARGE_CHUNK if isinstance(source, ManySource) else _CHUNK
    for start in range(0, count, chunk):
        rows = np.arange(start, min(start + chunk, count))
        for row, sample in zip(rows.tolist(), _take(source, first + rows), strict=True):
            if sample.labels.shape != labels.shape[1:] or sample.image.shape != images.shape[1:]:
                sizes = f"{sample.image.shape[:2]}, expected {labels.shape[1:]} like the first"
                raise ValueError(f"sample {first + row} has size {sizes}")
            images[row], labels[row] = sample.image, sample.labels
            factors.append(sample.factors)
        yield len(rows)
    pieces: dict[str, Sequence[bytes | memoryview]] = {
        "images.npy": npy_pieces(images),
        "labels.npy": npy_pieces(labels),
        "factors.npz": [pack_factors(factors)],
    }
    yield shard, {part: write_atomically(shard_file(out, shard, part), pieces[part]) for part in PARTS}


def _take(source: Source, indices: Int[np.ndarray, " b"]) -> list[Sample]:
    if isinstance(source, ManySource):
        return source.many(indices)
    return [source[index] for index in indices.tolist()]


def _run_workers(source: Source, out: Path, meta: StoreMeta, todo: list[int], workers: int) -> Iterator[Event]:
    """Every worker writes each `workers`-th shard and reports through a pipe of its own."""
    # Spawned, not forked: renderers and open files do not survive a fork, nor should the folder's lock.
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    try:
        for worker in range(workers):
            receive, send = context.Pipe(duplex=False)
            arguments = (source, out, meta, todo[worker::workers], send)
            process = context.Process(target=_work, args=arguments, daemon=True)
            with without_interrupts(), without_script(source):
                process.start()
            send.close()
            pipes.append(receive)
            processes.append(process)
        while pipes:
            for pipe in wait(pipes):
                yield from _receive(pipe, pipes)
    finally:
        for process in processes:
            process.terminate()
            process.join()


def _receive(pipe: Any, pipes: list[Any]) -> Iterator[Event]:
    try:
        message = pipe.recv()
    except EOFError:
        raise ChildProcessError("a worker died; its finished shards are kept, run again to continue") from None
    if isinstance(message, str):
        raise ValueError(message)
    if message is None:
        pipes.remove(pipe)
    else:
        yield message


def _work(source: Source, out: Path, meta: StoreMeta, shards: list[int], send: Connection) -> None:
    # A broken pipe means that the parent has ended.
    with contextlib.suppress(BrokenPipeError):
        try:
            for shard in shards:
                for event in _write_shard(source, out, meta, shard):
                    send.send(event)
            send.send(None)
        except (ValueError, OSError) as error:
            send.send(str(error))
