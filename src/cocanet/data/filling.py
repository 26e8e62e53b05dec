"""Writing a source of samples to a store, with the disk looked at first and a stopped run continued."""

from __future__ import annotations

import shutil
from pathlib import Path

from rich.filesize import decimal

from cocanet.data.sample import Source
from cocanet.data.store import Store
from cocanet.data.store_writer import estimate_bytes, finished_samples, write_store
from cocanet.files import check_folder_writable, existing_parent
from cocanet.watch import QUIET, Watcher
from cocanet.words import plural


def fill(source: Source, out: Path, *, workers: int = 1, watcher: Watcher = QUIET) -> Store:
    """Write `source` to `out`; Ctrl-C leaves what the same call can continue."""
    done = finished_samples(source, out)
    needed = round(estimate_bytes(source) * max(0, len(source) - done) / len(source))
    check_folder_writable(out)
    free = shutil.disk_usage(existing_parent(out)).free
    watcher.say(f"{plural(len(source), 'sample')}, about {decimal(needed)} to write to {out} ({decimal(free)} free)")
    if needed > free:
        raise ValueError(f"{out} needs about {decimal(needed)}, but its disk has only {decimal(free)} free")
    try:
        with watcher.progress("continuing" if done else "writing", len(source)) as update:
            store = write_store(source, out, workers=workers, progress=update)
    except KeyboardInterrupt:
        kept = finished_samples(source, out)
        raise KeyboardInterrupt(
            f"stopped, {out} keeps {kept:,} of {len(source):,} samples; run the same command to continue"
        ) from None
    watcher.say(f"{out} holds {plural(len(store), 'sample')} in {decimal(store.bytes)}")
    return store
