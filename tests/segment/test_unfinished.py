"""A run that was stopped goes on, and ends as if it had not been."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cocanet.files import locked
from cocanet.segment.files import segment_files
from cocanet.segment.paths import find_images
from cocanet.segment.settings import OutputSettings, SegmentSettings
from cocanet.segment.unfinished import NAME
from tests.segment.models import real


@pytest.fixture
def photos(tmp_path) -> Path:
    """Ten pictures; the fourth is damaged."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(10):
        noise = np.random.default_rng(number).integers(0, 256, (12 + number, 20, 3), dtype=np.uint8)
        Image.fromarray(noise).save(folder / f"{number}.png")
    (folder / "3.png").write_bytes(b"")
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def stop_at(segmenter, monkeypatch, call: int) -> list[int]:
    """Stop at a call of the model; the list counts them."""
    find, calls = segmenter.find, []

    def counted(*arguments):
        calls.append(len(arguments[0]))
        if len(calls) == call:
            raise KeyboardInterrupt
        return find(*arguments)

    monkeypatch.setattr(segmenter, "find", counted)
    return calls


@pytest.mark.parametrize("call", [2, 3, 4, 5])
def test_stopped_and_gone_on_with(tmp_path, photos, monkeypatch, call):
    whole, out = tmp_path / "whole", tmp_path / "out"
    undisturbed = segment_files(real(), find_images([photos], whole), OutputSettings(whole, batch=2))
    segmenter, output = real(), OutputSettings(out, batch=2)
    stop_at(segmenter, monkeypatch, call)
    with pytest.raises(KeyboardInterrupt, match=r"keeps \d+ of 10 images; run the same command to go on"):
        segment_files(segmenter, find_images([photos], out), output)
    kept = len((out / NAME).read_bytes().splitlines()) - 1
    segmenter = real()
    calls = stop_at(segmenter, monkeypatch, -1)
    done = segment_files(segmenter, find_images([photos], out), output)
    assert done.earlier == kept - kept % 2
    # What is finished is not done again: the model sees the readable ones of the others, and no more.
    assert sum(calls) == 9 - sum(number != 3 for number in range(done.earlier))
    assert (done.images, done.objects, done.behind) == (9, undisturbed.objects, 10)
    assert done.failures == undisturbed.failures
    assert contents(out) == contents(whole)


def test_a_log_that_a_crash_cut_off(tmp_path, photos):
    out, output = tmp_path / "out", OutputSettings(tmp_path / "out", batch=2)
    segmenter, inputs = real(), find_images([photos], tmp_path / "out")
    segment_files(segmenter, inputs, output)
    whole = contents(out)
    entries = [{"image": image} for image in json.loads(whole["objects.json"])["images"]]
    assert len(entries) == 9
    for name in ("objects.json", "sheet.png"):
        (out / name).unlink()
    with pytest.raises(ValueError, match="is not empty"):
        segment_files(segmenter, inputs, output)
    # A whole line, then one that is cut off, zeros, or something else.
    from cocanet.segment.unfinished import Log, describe

    job = describe(segmenter, inputs, output, SegmentSettings())
    for rubbish in (b'{"image": {"file', b"\0\0\0\0\n", b"[]\n", b""):
        log = Log(out, job, fresh=True)
        log.add({"error": "not there", "file_name": "0.png"})
        log.close()
        with (out / NAME).open("ab") as file:
            file.write(rubbish)
        done = segment_files(segmenter, inputs, output)
        assert done.earlier == 0  # half a batch is done again
        assert contents(out) == whole


def test_another_run_is_not_gone_on_with(tmp_path, photos, monkeypatch):
    out = tmp_path / "out"
    segmenter = real()
    stop_at(segmenter, monkeypatch, 3)
    with pytest.raises(KeyboardInterrupt):
        segment_files(segmenter, find_images([photos], out), OutputSettings(out, batch=2))
    again = find_images([photos], out)
    for change, difference in (
        ({"find": SegmentSettings(level=1)}, r"find\.level: null, not 1"),
        ({"output": OutputSettings(out, batch=3)}, "batch: 2, not 3"),
        ({"inputs": find_images([photos / "0.png"], out)}, "images: 10, not 1"),
    ):
        arguments = {"inputs": again, "output": OutputSettings(out, batch=2), "find": SegmentSettings(), **change}
        with pytest.raises(ValueError, match=f"holds an unfinished run with {difference}; run that again"):
            segment_files(real(), **arguments)
    done = segment_files(real(), again, OutputSettings(out, batch=3, overwrite=True))
    assert (done.earlier, done.images) == (0, 9)
    assert not (out / NAME).exists()


def test_two_runs_do_not_share_a_folder(tmp_path, photos):
    out = tmp_path / "out"
    out.mkdir()
    with locked(out), pytest.raises(ValueError, match="out is being written by another run"):
        segment_files(real(), find_images([photos], out), OutputSettings(out))


def test_what_is_held_in_memory_does_not_grow_with_the_images(tmp_path):
    """The annotation file is made from the log: neither keeps what it has written."""
    script = """
import resource, sys
from pathlib import Path
from cocanet.segment.coco import AnnotationFile
entry = {"file_name": "x" * 400}
with AnnotationFile(Path(sys.argv[1]), {}) as file:
    for number in range(1000):
        file.add({"id": number, **entry}, [dict(entry)])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(60_000):
        file.add({"id": number, **entry}, [dict(entry)])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    run = [sys.executable, "-c", script, str(tmp_path / "objects.json")]
    grown = int(subprocess.run(run, check=True, capture_output=True, text=True).stdout)
    assert grown < 4_000, f"{grown} kB more for 60,000 images"
    assert len(json.loads((tmp_path / "objects.json").read_text())["images"]) == 61_000
