from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cocanet.data.generators.tetrominoes import Tetrominoes
from cocanet.data.sample import Sample
from cocanet.data.store import Store
from cocanet.data.store_format import META, read_meta
from cocanet.data.store_writer import estimate_bytes, write_store
from cocanet.progress import Progress
from tests.data.sources import Failing, NoiseSource


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


class _Recorded(Progress):
    """Keeps every number of finished samples."""

    def __init__(self) -> None:
        self.updates: list[int] = []

    def bar(self, title: str, total: int) -> AbstractContextManager[Callable[[int], None]]:
        return nullcontext(self.updates.append)


def test_progress_counts_up_to_every_sample(tmp_path: Path) -> None:
    progress = _Recorded()
    write_store(NoiseSource(150), tmp_path / "store", shard_size=100, progress=progress)
    assert progress.updates == [0, 32, 64, 96, 100, 132, 150]


def test_a_stopped_run_continues_with_the_unfinished_shards_only(tmp_path: Path) -> None:
    whole, out = tmp_path / "whole", tmp_path / "out"
    write_store(NoiseSource(25), whole, shard_size=4)
    with pytest.raises(KeyboardInterrupt, match="keeps 16 of 25 samples; run the same command to continue"):
        write_store(Failing(25, at=18), out, shard_size=4)
    with pytest.raises(ValueError, match=r"out is unfinished: 16 of 25 samples; run .* again to continue"):
        Store(out)
    progress = _Recorded()
    write_store(NoiseSource(25), out, shard_size=4, progress=progress)
    assert progress.updates[0] == 16
    assert _contents(out) == _contents(whole)
    write_store(NoiseSource(25), out, shard_size=4, progress=progress)  # nothing is left to do
    assert progress.updates[-1] == 25
    assert _contents(out) == _contents(whole)


class _Crash(BaseException):
    """A crash of the machine; nothing in the package may catch it."""


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_crash_at_any_rename_leaves_a_store_that_can_be_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    whole, out = tmp_path / "whole", tmp_path / "out"
    write_store(NoiseSource(10), whole, shard_size=4)
    replace, calls = os.replace, {"left": 0}

    def crashing(source: Path, target: Path) -> None:
        calls["left"] -= 1
        if moment == "after" or calls["left"]:
            replace(source, target)
        if calls["left"] == 0:
            raise _Crash

    crashes = 0
    for step in (1, 2, 3, 4, 5, 1, 3, 2, 6, 9, 30):
        calls["left"] = step
        monkeypatch.setattr(os, "replace", crashing)
        try:
            write_store(NoiseSource(10), out, shard_size=4)
        except _Crash:
            crashes += 1
        monkeypatch.undo()
    assert crashes >= 3
    write_store(NoiseSource(10), out, shard_size=4)
    assert _contents(out) == _contents(whole)


def test_kills_at_random_moments_change_no_byte(tmp_path: Path) -> None:
    whole, out = tmp_path / "whole", tmp_path / "out"
    source = Tetrominoes(900, seed=1)
    started = time.perf_counter()
    write_store(source, whole, shard_size=30)
    duration = time.perf_counter() - started

    rng, kept = random.Random(0), []
    for _ in range(6):
        # Forked, so that the moment falls into the run and not into the start of an interpreter.
        run = multiprocessing.get_context("fork").Process(
            target=write_store, args=(source, out), kwargs={"shard_size": 30}
        )
        run.start()
        time.sleep(rng.uniform(0, duration / 4))
        assert run.pid is not None
        os.kill(run.pid, signal.SIGKILL)
        run.join()
        assert run.exitcode == -signal.SIGKILL, "the run ended before it was killed"
        kept.append(read_meta(out).finished if (out / META).exists() else 0)
    assert kept == sorted(kept)
    assert 0 < kept[-1] < 900
    write_store(source, out, shard_size=30)
    assert _contents(out) == _contents(whole)


def test_killing_a_run_with_workers_changes_no_byte(tmp_path: Path) -> None:
    whole, out = tmp_path / "whole", tmp_path / "out"
    write_store(Tetrominoes(800, seed=1), whole, shard_size=40)
    script = (
        "from pathlib import Path\n"
        "from cocanet.data.generators.tetrominoes import Tetrominoes\n"
        "from cocanet.data.store_writer import write_store\n"
        "if __name__ == '__main__':\n"
        f"    write_store(Tetrominoes(800, seed=1), Path({str(out)!r}), shard_size=40, workers=2)\n"
    )
    (tmp_path / "run.py").write_text(script)
    run = subprocess.Popen([sys.executable, str(tmp_path / "run.py")])
    deadline = time.monotonic() + 60
    while len(list(out.glob("shard-*.factors.npz"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    run.kill()
    run.wait()
    # At once, while the orphaned workers may still be finishing a shard.
    write_store(Tetrominoes(800, seed=1), out, shard_size=40)
    assert {n: c for n, c in _contents(out).items() if not n.endswith(".tmp")} == _contents(whole)
    Store(out)


@pytest.mark.parametrize(
    ("own", "guard"),
    [("", ""), ("class Tetrominoes(Tetrominoes):\n    pass\n", 'if __name__ == "__main__":\n    ')],
    ids=["a script without a guard", "a script's own source"],
)
def test_a_script_runs_once_whatever_its_workers_do(tmp_path: Path, own: str, guard: str) -> None:
    (tmp_path / "script.py").write_text(
        "from pathlib import Path\n"
        "from cocanet.data.generators.tetrominoes import Tetrominoes\n"
        f"from cocanet.data.store_writer import write_store\n{own}"
        f"{guard}print(len(write_store(Tetrominoes(20, seed=1), Path('out'), shard_size=5, workers=2)))\n"
    )
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == ("20\n", "", 0)


def test_workers_write_the_same_bytes(tmp_path: Path) -> None:
    write_store(NoiseSource(40), tmp_path / "one", shard_size=4)
    write_store(NoiseSource(40), tmp_path / "two", shard_size=4, workers=2)
    assert _contents(tmp_path / "one") == _contents(tmp_path / "two")


def test_a_failing_or_dead_worker_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="sample 30 is bad"):
        write_store(Failing(40, at=30, error=ValueError), tmp_path / "bad", shard_size=4, workers=2)
    with pytest.raises(OSError, match="a worker died"):
        write_store(Failing(40, at=30, error=None), tmp_path / "dead", shard_size=4, workers=2)


def test_another_store_in_the_way_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_store(NoiseSource(10, seed=1), out)
    before = _contents(out)
    for other, message in (
        (NoiseSource(10, seed=2), r"with recipe\.seed: 1, not 2;"),
        (NoiseSource(11, seed=1), r"with count: 10, not 11;"),
    ):
        with pytest.raises(ValueError, match=message):
            write_store(other, out)
    with pytest.raises(ValueError, match="shard_size"):
        write_store(NoiseSource(10, seed=1), out, shard_size=3)
    assert _contents(out) == before


def test_a_plan_of_which_nothing_was_written_makes_way(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="sample 7"):
        write_store(_Odd(9), tmp_path / "out", shard_size=9)
    assert len(write_store(NoiseSource(4, seed=2), tmp_path / "out")) == 4


def test_a_foreign_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"neither empty nor a store: it contains thesis\.txt"):
        write_store(NoiseSource(3), tmp_path)
    assert _contents(tmp_path) == {"thesis.txt": b"mine"}


def test_two_runs_into_one_folder_are_refused(tmp_path: Path) -> None:
    class Nested(NoiseSource):
        def __getitem__(self, index: int) -> Sample:
            if index == 5:
                write_store(NoiseSource(10), tmp_path / "out")
            return super().__getitem__(index)

    with pytest.raises(ValueError, match="being written by another run"):
        write_store(Nested(10), tmp_path / "out")


def test_a_damaged_shard_is_not_built_upon(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        write_store(Failing(25, at=18), out, shard_size=4)
    (out / "shard-00001.labels.npy").write_bytes(b"")
    with pytest.raises(ValueError, match=r"shard-00001\.labels\.npy is damaged"):
        write_store(NoiseSource(25), out, shard_size=4)


class _Odd(NoiseSource):
    """One image is larger than the others."""

    def __getitem__(self, index: int) -> Sample:
        sample = super().__getitem__(index)
        if index == 7:
            return Sample(sample.image.repeat(2, axis=0), sample.labels.repeat(2, axis=0), sample.factors)
        return sample


class _Unwritable(NoiseSource):
    @property
    def recipe(self) -> Mapping[str, Any]:
        return {"array": np.zeros(3)}


def test_sources_that_do_not_fit_a_store_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"sample 7 has size \(10, 7\), expected \(5, 7\)"):
        write_store(_Odd(9), tmp_path / "odd")
    with pytest.raises(ValueError, match="no samples"):
        write_store(NoiseSource(0), tmp_path / "empty")
    with pytest.raises(ValueError, match="recipe must be plain JSON"):
        write_store(_Unwritable(9), tmp_path / "recipe")
    for option in ("workers", "shard_size"):
        with pytest.raises(ValueError, match=f"{option} must be at least 1, not 0"):
            write_store(NoiseSource(9), tmp_path / "option", **{option: 0})


def test_the_estimate_of_bytes(tmp_path: Path) -> None:
    source = Tetrominoes(500, seed=0)
    store = write_store(source, tmp_path / "out")
    assert estimate_bytes(source) == pytest.approx(store.bytes, rel=0.02)
