"""Tables of results: their rows against files and pycocotools, and runs that go on."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from cocanet.predict.resume_log import NAME
from tests.predict.conftest import contents

pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:pycocotools.*")


def test_parts(place):
    parts = sorted((place.path / "table").iterdir())
    # Twelve images are the least number of whole batches of four with at least ten images.
    assert [part.name for part in parts] == ["part-00000.parquet", "part-00001.parquet", "part-00002.parquet"]
    numbers = [sorted(set(pq.read_table(part)["image"].to_pylist())) for part in parts]
    assert numbers == [list(range(12)), list(range(12, 24)), list(range(24, 30))]
    about = json.loads(pq.read_schema(parts[0]).metadata[b"cocanet"])
    assert (about["weights"], about["refined"]) == (place.weights, False)


def test_rows_say_what_the_files_say(place):
    masks = pytest.importorskip("pycocotools.mask", reason="pycocotools is not installed")
    rows = pq.read_table(place.path / "table").to_pylist()
    listed = json.loads((place.path / "files" / "objects.json").read_text())
    images = {image["file_name"]: image for image in listed["images"]}
    objects = {(entry["image_id"], entry["label"]): entry for entry in listed["annotations"]}
    assert [(row["image"], row["file_name"], row["error"]) for row in rows if row["error"]] == [
        (3, "3.png", "the file is empty")
    ]
    seen = {}
    for row in rows:
        if row["error"] is not None:
            assert {name for name, value in row.items() if value is not None} == {"image", "file_name", "error"}
            continue
        image = images[row["file_name"]]
        labels = np.asarray(Image.open(place.path / "files" / image["labels"]))
        np.testing.assert_array_equal(masks.decode(row["mask"]), labels == row["label"])
        assert [row["height"], row["width"]] == row["mask"]["size"] == list(labels.shape)
        with np.load(place.path / "files" / image["slots"]) as file:
            np.testing.assert_array_equal(np.float32(row["vector"]), file["slots"][row["label"]])
            for name in ("area", "box", "centre", "compactness", "slot"):
                np.testing.assert_array_equal(row[name], file[name][row["label"]])
            assert row["confidence"] == np.float32(file["confidence"][row["label"]])
        assert row["background"] == (row["label"] == 0)
        if not row["background"]:
            assert row["box"] == objects[image["id"], row["label"]]["bbox"]
        seen.setdefault(row["file_name"], []).append(row["label"])
    assert seen.keys() == images.keys()
    assert all(labels == list(range(len(labels))) for labels in seen.values())
    assert sum(len(labels) - 1 for labels in seen.values()) == len(objects)


@pytest.mark.parametrize("parts", [0, 2])
def test_interrupted_and_resumed(place, tmp_path, parts):
    out, counts = tmp_path / "out", []

    def stop(finished: int) -> None:
        counts.append(finished)
        if finished == 12 * parts + 5:
            raise KeyboardInterrupt

    options = {"format": "parquet", "part": 10}
    with pytest.raises(KeyboardInterrupt, match=rf"keeps {12 * parts} of 30 images; run the same command"):
        place.run(out, progress=stop, **options)
    # Readers of a folder ignore the log, whose name begins with an underscore.
    assert sorted(path.name for path in out.iterdir() if not path.name.startswith("_")) == [
        f"part-{part:05d}.parquet" for part in range(parts)
    ]
    with pytest.raises(ValueError, match=r'holds an unfinished run with format: "parquet", not "files"'):
        place.run(out)
    counts.clear()
    done = place.run(out, progress=counts.append, **options)
    assert (done.resumed, done.images, done.finished, len(done.failures)) == (12 * parts, 29, 30, 1)
    assert counts[0] == 12 * parts
    assert contents(out) == contents(place.path / "table")
    with pytest.raises(ValueError, match="is not empty"):
        place.run(out, **options)
    again = place.run(out, overwrite=True, format="parquet", part=100)
    assert again.objects == done.objects
    assert [path.name for path in out.iterdir()] == ["part-00000.parquet"]
    assert not (out / NAME).exists()


def test_all_parts_are_there_but_the_run_did_not_end(place, tmp_path):
    out = tmp_path / "out"
    place.run(out, format="parquet", part=10)
    log = tmp_path / NAME
    with pytest.raises(KeyboardInterrupt):
        place.run(tmp_path / "other", progress=_stop, format="parquet", part=10)
    log.write_bytes((tmp_path / "other" / NAME).read_bytes())
    log.rename(out / NAME)
    done = place.run(out, format="parquet", part=10)
    assert (done.resumed, done.images) == (30, 29)
    assert contents(out) == contents(place.path / "table")


def _stop(finished: int) -> None:
    raise KeyboardInterrupt
