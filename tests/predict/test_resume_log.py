"""An interrupted run resumes, and ends with the files of a run without interruption."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cocanet.files import locked
from cocanet.predict.inputs import find_images
from cocanet.predict.resume_log import NAME
from cocanet.predict.segment_many import segment_many
from cocanet.predict.segment_settings import OutputSettings, SegmentSettings
from tests.predict.models import real


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
    predict, calls = segmenter.predict, []

    def counted(*arguments):
        calls.append(len(arguments[0]))
        if len(calls) == call:
            raise KeyboardInterrupt
        return predict(*arguments)

    monkeypatch.setattr(segmenter, "predict", counted)
    return calls


@pytest.mark.parametrize("call", [2, 5])
def test_interrupted_and_resumed(tmp_path, photos, monkeypatch, call):
    whole, out = tmp_path / "whole", tmp_path / "out"
    undisturbed = segment_many(real(), find_images([photos], whole), OutputSettings(whole, batch=2))
    segmenter, output = real(), OutputSettings(out, batch=2)
    stop_at(segmenter, monkeypatch, call)
    with pytest.raises(KeyboardInterrupt, match=r"keeps \d+ of 10 images; run the same command to resume"):
        segment_many(segmenter, find_images([photos], out), output)
    kept = len((out / NAME).read_bytes().splitlines()) - 1
    segmenter = real()
    calls = stop_at(segmenter, monkeypatch, -1)
    done = segment_many(segmenter, find_images([photos], out), output)
    assert done.resumed == kept - kept % 2
    # The model sees only the readable images that were not finished.
    assert sum(calls) == 9 - sum(number != 3 for number in range(done.resumed))
    assert (done.images, done.objects, done.finished) == (9, undisturbed.objects, 10)
    assert done.failures == undisturbed.failures
    assert contents(out) == contents(whole)


def test_a_log_that_a_crash_cut_off(tmp_path, photos):
    out, output = tmp_path / "out", OutputSettings(tmp_path / "out", batch=2)
    segmenter, inputs = real(), find_images([photos], tmp_path / "out")
    segment_many(segmenter, inputs, output)
    whole = contents(out)
    entries = [{"image": image} for image in json.loads(whole["objects.json"])["images"]]
    assert len(entries) == 9
    for name in ("objects.json", "sheet.png"):
        (out / name).unlink()
    with pytest.raises(ValueError, match="is not empty"):
        segment_many(segmenter, inputs, output)
    # A whole line, then one that is cut off, zeros, or something else.
    from cocanet.predict.resume_log import ResumeLog, describe_run

    run = describe_run(segmenter, inputs, output, SegmentSettings())
    for damage in (b'{"image": {"file', b"\0\0\0\0\n", b"[]\n", b""):
        log = ResumeLog(out, run, fresh=True)
        log.add({"error": "not there", "file_name": "0.png"})
        log.close()
        with (out / NAME).open("ab") as file:
            file.write(damage)
        done = segment_many(segmenter, inputs, output)
        assert done.resumed == 0  # half a batch is done again
        assert contents(out) == whole


def test_another_run_is_not_resumed(tmp_path, photos, monkeypatch):
    out = tmp_path / "out"
    segmenter = real()
    stop_at(segmenter, monkeypatch, 3)
    with pytest.raises(KeyboardInterrupt):
        segment_many(segmenter, find_images([photos], out), OutputSettings(out, batch=2))
    again = find_images([photos], out)
    for change, difference in (
        ({"settings": SegmentSettings(level=1)}, r"settings\.level: null, not 1"),
        ({"output": OutputSettings(out, batch=3)}, "batch: 2, not 3"),
        ({"inputs": find_images([photos / "0.png"], out)}, "images: 10, not 1"),
    ):
        arguments = {"inputs": again, "output": OutputSettings(out, batch=2), "settings": SegmentSettings(), **change}
        with pytest.raises(ValueError, match=f"holds an unfinished run with {difference}; run that again"):
            segment_many(real(), **arguments)
    done = segment_many(real(), again, OutputSettings(out, batch=3, overwrite=True))
    assert (done.resumed, done.images) == (0, 9)
    assert not (out / NAME).exists()


def test_two_runs_do_not_share_a_folder(tmp_path, photos):
    out = tmp_path / "out"
    out.mkdir()
    with locked(out), pytest.raises(ValueError, match="out is being written by another run"):
        segment_many(real(), find_images([photos], out), OutputSettings(out))


def test_memory_does_not_grow_with_the_images(tmp_path):
    """Neither the log nor the annotation file keeps what it has written."""
    script = """
import resource, sys
from pathlib import Path
from cocanet.predict.coco import AnnotationFile
entry = {"file_name": "x" * 400}
with AnnotationFile(Path(sys.argv[1]), {}) as file:
    for number in range(1000):
        file.add({"id": number, **entry}, [dict(entry)])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(30_000):
        file.add({"id": number, **entry}, [dict(entry)])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    run = [sys.executable, "-c", script, str(tmp_path / "objects.json")]
    grown = int(subprocess.run(run, check=True, capture_output=True, text=True).stdout)
    assert grown < 4_000, f"{grown} kB more for 30,000 images"
    assert len(json.loads((tmp_path / "objects.json").read_text())["images"]) == 31_000
