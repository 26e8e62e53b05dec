"""A folder of results from files of every kind."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

from cocanet.data.store_writer import write_store
from cocanet.predict import batches, inputs
from cocanet.predict.batches import one_ahead, read_batches
from cocanet.predict.inputs import find_images
from cocanet.predict.segment_many import segment_many
from cocanet.predict.segment_settings import OutputSettings, SegmentSettings
from tests.predict.models import by_colour, real
from tests.small_runs import Squares

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:pycocotools.*")


@pytest.fixture(autouse=True)
def every_segment_is_kept(monkeypatch):
    """Random models and noise make no object that scores enough; test_scores.py has the scores."""
    monkeypatch.setattr("cocanet.predict.prediction.object_scores", lambda cues: np.full(len(cues.border), 0.75))


def scene(height: int, width: int) -> Image.Image:
    """A red rectangle and a green disc on blue."""
    picture = Image.new("RGB", (width, height), (0, 0, 200))
    draw = ImageDraw.Draw(picture)
    draw.rectangle((width // 8, height // 8, width // 2, height // 2), fill=(220, 0, 0))
    draw.ellipse((width // 2, height // 2, width - 2, height - 2), fill=(0, 210, 0))
    return picture


def zoo(folder: Path, *, large: bool = False) -> tuple[dict[str, tuple[int, int]], dict[str, str]]:
    """Files of every kind: sizes of those that can be read, and why others cannot."""
    (folder / "sub" / "deep").mkdir(parents=True)
    picture = scene(30, 50)
    grey = np.asarray(picture.convert("L"))
    exif = Image.Exif()
    exif[0x0112] = 6
    pictures = {
        "a.png": (picture, {}),
        "a.jpg": (picture, {}),
        "a.webp": (picture, {"lossless": True}),
        "sub/a.gif": (picture.quantize(8), {"save_all": True, "append_images": [scene(30, 50).quantize(4)]}),
        "sub/pages.tif": (picture, {"save_all": True, "append_images": [scene(20, 20)]}),
        "sub/deep/grey.png": (Image.fromarray(grey), {}),
        "sub/deep/grey16.png": (Image.fromarray(grey.astype(np.uint16) * 257), {}),
        "sub/deep/grey16.tif": (Image.fromarray(grey.astype(np.uint16) * 257), {}),
        "rgba.png": (picture.convert("RGBA"), {}),
        "grey-alpha.png": (picture.convert("LA"), {}),
        "palette.png": (picture.quantize(16), {}),
        "cmyk.jpg": (picture.convert("CMYK"), {}),
        "binary.png": (Image.fromarray(grey > 40), {}),
        "turned.jpg": (picture, {"exif": exif}),
        "one.png": (Image.new("RGB", (1, 1), (9, 8, 7)), {}),
        "line.bmp": (Image.new("RGB", (200, 1)), {}),
        "flat.ppm": (Image.new("RGB", (20, 10), (50, 60, 70)), {}),
    }
    if large:
        pictures["huge.jpg"] = (scene(3000, 4000), {})
    for name, (image, options) in pictures.items():
        image.save(folder / name, **options)
    whole = (folder / "a.png").read_bytes()
    broken = {
        "cut.png": (whole[:-40], "the PNG file is cut off"),
        "flipped.png": (whole[:60] + bytes([whole[60] ^ 1]) + whole[61:], "is wrong"),
        "cut.jpg": ((folder / "a.jpg").read_bytes()[:400], "(OSError: Truncated File Read)"),
        "empty.png": (b"", "the file is empty"),
        "sub/text.png": (b"this is not an image\n", "not an image"),
    }
    for name, (data, _) in broken.items():
        (folder / name).write_bytes(data)
    (folder / "notes.txt").write_text("left alone")
    sizes = {name: image.size[::-1] for name, (image, _) in pictures.items()}
    return {**sizes, "turned.jpg": (50, 30)}, {name: reason for name, (_, reason) in broken.items()}


def labels_again(coco, image_id: int, size: tuple[int, int]) -> np.ndarray:
    again = np.zeros(size, int)
    for entry in coco.loadAnns(coco.getAnnIds(image_id)):
        again[coco.annToMask(entry) == 1] = entry["label"]
    return again


@pytest.mark.parametrize(
    ("keep_background", "settings"),
    [(False, SegmentSettings()), (True, SegmentSettings(level=1, min_area=4, components=True))],
)
def test_files_of_every_kind(tmp_path, capsys, keep_background, settings):
    coco_files = pytest.importorskip("pycocotools.coco", reason="pycocotools is not installed")
    source, out = tmp_path / "in", tmp_path / "out"
    readable, broken = zoo(source, large=not keep_background)
    output, counts = OutputSettings(out, batch=4, keep_background=keep_background), []
    done = segment_many(real(), find_images([source], out), output, settings, progress=counts.append)
    assert capsys.readouterr() == ("", "")
    assert counts == sorted(counts)
    assert counts[-1] == len(readable) + len(broken)
    reasons = {str(failure.path.relative_to(source)): failure.reason for failure in done.failures}
    assert reasons.keys() == broken.keys()
    for name, reason in broken.items():
        assert reasons[name].endswith(reason)
    coco = coco_files.COCO(out / "objects.json")
    images = {image["file_name"]: image for image in coco.loadImgs(coco.getImgIds())}
    assert {name: (image["height"], image["width"]) for name, image in images.items()} == readable
    for image in images.values():
        size = (image["height"], image["width"])
        labels = np.asarray(Image.open(out / image["labels"]))
        np.testing.assert_array_equal(labels_again(coco, image["id"], size), labels)
        assert Image.open(out / image["overlays"]).format == "JPEG"
        with np.load(out / image["slots"], allow_pickle=False) as file:
            assert set(file) == {
                "slots", "slot", "area", "box", "centre", "inertia", "compactness", "confidence", "score", "image_size",
            }  # fmt: skip
            assert tuple(file["image_size"]) == size
            np.testing.assert_array_equal(file["area"], np.bincount(labels.ravel()))
            assert file["slots"].shape == (len(file["area"]), 16)
            for entry in coco.loadAnns(coco.getAnnIds(image["id"])):
                np.testing.assert_array_equal(entry["bbox"], file["box"][entry["label"]])
                assert entry["area"] == file["area"][entry["label"]]
                assert entry["score"] == pytest.approx(file["score"][entry["label"]], abs=1e-4)
    assert len({image["labels"] for image in images.values()}) == len(readable)
    assert Path(images["sub/deep/grey.png"]["labels"]) == Path("labels/sub/deep/grey.png")
    assert Image.open(out / "sheet.png").width > 300
    assert not list(out.rglob("*.tmp"))


def test_what_is_lossless_gives_the_same_labels(tmp_path):
    source, out = tmp_path / "in", tmp_path / "out"
    zoo(source)
    segmenter = real()
    segment_many(segmenter, find_images([source], out), OutputSettings(out))
    for original, written in (
        ("a.png", ["a.png.png", "a.webp.png", "rgba.png", "sub/pages.png"]),
        ("sub/deep/grey.png", ["sub/deep/grey.png", "sub/deep/grey16.png", "sub/deep/grey16.tif.png"]),
    ):
        expected = segmenter.segment(Image.open(source / original)).labels
        assert expected.max() > 0
        for name in written:
            np.testing.assert_array_equal(np.asarray(Image.open(out / "labels" / name)), expected, err_msg=name)


def test_masks_lie_on_the_original_pixels(tmp_path):
    """Through files and all: a rectangle and a disc of a photo's size, where they were drawn."""
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    picture = scene(480, 640)
    picture.save(source / "a.png")
    segment_many(by_colour((96, 128)), find_images([source], out), OutputSettings(out))
    labels = np.asarray(Image.open(out / "labels" / "a.png"))
    truth = np.asarray(picture).argmax(-1)
    again = np.array([2, 1, 0])[labels]
    assert (again == truth).mean() > 0.995
    boxes = [entry["bbox"] for entry in json.loads((out / "objects.json").read_text())["annotations"]]
    for box, expected in zip(boxes, [(320, 240, 319, 239), (80, 60, 241, 181)], strict=True):
        assert np.abs(np.array(box) - expected).max() <= 3


def test_more_than_255_segments_take_16_bits(tmp_path):
    from cocanet.predict.writers import encode_labels

    for count, mode in ((255, "P"), (256, "I;16"), (40_000, "I;16")):
        labels = np.arange(200 * 200, dtype=np.int32).reshape(200, 200) % count
        (tmp_path / "a.png").write_bytes(encode_labels(labels))
        picture = Image.open(tmp_path / "a.png")
        assert picture.mode == mode
        np.testing.assert_array_equal(np.asarray(picture), labels)
    with pytest.raises(ValueError, match="70000 segments do not fit"):
        encode_labels(np.arange(70_000, dtype=np.int32)[None])


def test_the_output_folder(tmp_path):
    out = tmp_path / "out"
    scene(20, 20).save(tmp_path / "a.png")
    inputs = find_images([tmp_path / "a.png"], out)
    assert segment_many(real(), inputs, OutputSettings(out, sheet=0)).images == 1
    assert not (out / "sheet.png").exists()
    with pytest.raises(ValueError, match="out is not empty; give another folder with --out, or --overwrite"):
        segment_many(real(), inputs, OutputSettings(out))
    assert segment_many(real(), inputs, OutputSettings(out, overwrite=True)).images == 1
    (tmp_path / "b.png").symlink_to(tmp_path / "nowhere")
    for where, message in (
        (tmp_path / "a.png", r"/a\.png is not a folder"),
        (tmp_path / "a.png" / "out", r"cannot write to .*/a\.png/out: .*/a\.png is not a folder"),
        (tmp_path / "b.png", r"cannot write .*/b\.png: File exists"),
    ):
        with pytest.raises((ValueError, OSError), match=f"^[^[]*{message}$"):
            segment_many(real(), inputs, OutputSettings(where))


@pytest.mark.parametrize("name", ["labels", "overlays/a.jpg", "objects.json"])
def test_what_is_in_the_way_is_named(tmp_path, name):
    """A file where a folder belongs, and the other way round."""
    scene(20, 20).save(tmp_path / "a.png")
    there = tmp_path / "out" / name
    there.parent.mkdir(parents=True)
    there.touch() if name == "labels" else there.mkdir()
    inputs = find_images([tmp_path / "a.png"], tmp_path / "out")
    with pytest.raises(OSError, match=f"^cannot write {there}: [A-Z]"):
        segment_many(real(), inputs, OutputSettings(tmp_path / "out", overwrite=True))


def test_mistakes_are_found_before_any_work(tmp_path):
    scene(20, 20).save(tmp_path / "a.png")
    inputs = find_images([tmp_path / "a.png"], tmp_path / "out")
    with pytest.raises(ValueError, match="level must lie in 1 … 3"):
        segment_many(real(), inputs, OutputSettings(tmp_path / "out"), SegmentSettings(level=9))
    assert not (tmp_path / "out").exists()
    with pytest.raises(ValueError, match="at least one image; got 0"):
        OutputSettings(batch=0)
    with pytest.raises(ValueError, match="0 or more images; got -1"):
        OutputSettings(sheet=-1)


def test_the_images_of_a_store(tmp_path):
    """Under their numbers, and as arrays from the store are segmented."""
    store, out = write_store(Squares(9), tmp_path / "store"), tmp_path / "out"
    done = segment_many(real(), find_images([tmp_path / "store"], out), OutputSettings(out, batch=4))
    assert (done.images, done.failures) == (9, [])
    content = json.loads((out / "objects.json").read_text())
    assert [image["file_name"] for image in content["images"]] == [f"{number:06d}.png" for number in range(9)]
    for number, image in enumerate(content["images"]):
        expected = real().segment(store[number].image).labels
        np.testing.assert_array_equal(np.asarray(Image.open(out / image["labels"])), expected)


def test_an_image_bomb_is_reported(tmp_path, monkeypatch):
    for name, side in (("a.png", 20), ("bomb.png", 80)):
        scene(side, side).save(tmp_path / name)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    done = segment_many(real(), find_images([tmp_path], tmp_path / "out"), OutputSettings(tmp_path / "out", sheet=0))
    assert done.images == 1
    (failure,) = done.failures
    assert failure.path.name == "bomb.png"
    assert "exceeds limit" in failure.reason


def test_images_are_read_only_a_batch_ahead(tmp_path, monkeypatch):
    for number in range(20):
        scene(10, 10).save(tmp_path / f"{number}.png")
    reads = []
    read_image = inputs.read_image
    monkeypatch.setattr(inputs, "read_image", lambda path, **k: reads.append(path) or read_image(path, **k))
    found = find_images([tmp_path], tmp_path / "out")
    sizes = []
    for taken, batch in enumerate(one_ahead(read_batches(batches.batches(found, 3), {})), 1):
        sizes.append(len(batch))
        assert len(reads) <= 3 * (taken + 1) + 1
    assert sizes == [3] * 6 + [2]
    monkeypatch.setattr(batches, "MAX_PIXELS", 250)
    assert [len(batch) for batch in read_batches(batches.batches(found, 16), {})] == [2] * 10
    monkeypatch.setattr(batches, "MAX_PIXELS", 5)
    assert [len(batch) for batch in read_batches(batches.batches(found, 16), {})] == [1] * 20


def test_order_and_numbers_do_not_depend_on_batches(tmp_path, monkeypatch):
    for number in range(9):
        scene(10 + number, 12).save(tmp_path / f"{number}.png")
    inputs = find_images([tmp_path], tmp_path / "out")
    contents = []
    for batch, pixels in ((1, 1), (4, 10**6)):
        monkeypatch.setattr(batches, "MAX_PIXELS", pixels)
        out = tmp_path / f"out{batch}"
        segment_many(real(), inputs, OutputSettings(out, batch=batch))
        contents.append(json.loads((out / "objects.json").read_text()))
    assert contents[0] == contents[1]
    assert [image["file_name"] for image in contents[0]["images"]] == [f"{number}.png" for number in range(9)]
    assert [image["id"] for image in contents[0]["images"]] == list(range(1, 10))


def test_a_failing_disk_is_an_error(tmp_path, monkeypatch):
    scene(10, 10).save(tmp_path / "a.png")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("cocanet.predict.writers.write_atomically", full)
    with pytest.raises(OSError, match=r"^cannot write .*: No space left on device$"):
        segment_many(real(), find_images([tmp_path], tmp_path / "out"), OutputSettings(tmp_path / "out"))


def test_real_photographs(tmp_path, samples):
    photos = [
        path for name in ("clevr_images", "birds", "flowers") for path in sorted(samples.glob(f"{name}/**/*.jpg"))[:3]
    ]
    if not photos:
        pytest.skip(f"no photographs in {samples}")
    for number, photo in enumerate(photos):
        shutil.copy(photo, tmp_path / f"{number}.jpg")
    done = segment_many(real(), find_images([tmp_path / "*.jpg"], tmp_path / "out"), OutputSettings(tmp_path / "out"))
    assert done.images == len(photos)
    assert done.failures == []
    for number in range(len(photos)):
        labels = Image.open(tmp_path / "out" / "labels" / f"{number}.png")
        assert labels.size == Image.open(tmp_path / f"{number}.jpg").size


def test_unreadable_files_alone_leave_no_folder(tmp_path):
    (tmp_path / "a.png").write_bytes(b"")
    done = segment_many(real(), find_images([tmp_path / "a.png"], tmp_path / "out"), OutputSettings(tmp_path / "out"))
    assert (done.images, [failure.reason for failure in done.failures]) == (0, ["the file is empty"])
    assert not (tmp_path / "out").exists()


def test_outputs_record_refinement(tmp_path):
    scene(20, 20).save(tmp_path / "a.png")
    found = find_images([tmp_path / "a.png"], tmp_path / "out")
    for refine in (False, True):
        output = OutputSettings(tmp_path / "out", overwrite=True)
        segment_many(real(), found, output, SegmentSettings(refine=refine))
        assert json.loads((tmp_path / "out" / "objects.json").read_text())["info"]["refined"] is refine
