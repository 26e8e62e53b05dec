import sys
import warnings
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cocanet.train.tensorboard import Scalars

pytest.importorskip("tensorboard")


def read(folder: Path):
    """TensorBoard's own view of a folder."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        events = EventAccumulator(str(folder))
        return events.Reload()


def curve(folder: Path, name: str) -> list[tuple[int, float]]:
    return [(event.step, event.value) for event in read(folder).Scalars(name)]


def test_scalars_come_back(tmp_path):
    scalars = Scalars(tmp_path, None)
    for step in (10, 20, 30):
        scalars.add(step, {"train/loss": 1 / step, "train/learning_rate": step / 2})
    scalars.add(20, {"validation/mse": 0.25})
    scalars.close()
    assert read(tmp_path).Tags()["scalars"] == ["train/loss", "train/learning_rate", "validation/mse"]
    assert curve(tmp_path, "train/loss") == [(step, pytest.approx(1 / step)) for step in (10, 20, 30)]
    assert curve(tmp_path, "validation/mse") == [(20, 0.25)]


@pytest.mark.parametrize("purge_step", [None, 3])
def test_steps_that_are_done_again_are_hidden(tmp_path, purge_step):
    first = Scalars(tmp_path, None)
    for step in range(6):
        first.add(step, {"loss": 1.0})
    first.close()
    again = Scalars(tmp_path, purge_step)
    for step in range(3, 8):
        again.add(step, {"loss": 2.0})
    again.close()
    found = curve(tmp_path, "loss")
    if purge_step is None:
        assert len(found) == 6 + 5
    else:
        assert found == [(step, 1.0) for step in range(3)] + [(step, 2.0) for step in range(3, 8)]


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_pictures_come_back(tmp_path, mode):
    pixels = np.random.default_rng(0).integers(0, 256, (6, 9, 3), dtype=np.uint8)
    path = tmp_path / "picture.png"
    Image.fromarray(pixels).convert(mode).save(path)
    scalars = Scalars(tmp_path / "events", None)
    scalars.picture(7, "discovery", path)
    scalars.close()
    (event,) = read(tmp_path / "events").Images("discovery")
    assert event.step == 7
    with Image.open(BytesIO(event.encoded_image_string)) as image:
        np.testing.assert_array_equal(np.asarray(image.convert("RGB")), pixels)


def test_without_a_folder_nothing_is_written_or_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    scalars = Scalars(None, 5)
    scalars.add(1, {"loss": 1.0})
    scalars.picture(1, "missing", tmp_path / "missing.png")
    scalars.close()
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_written_after_the_end(tmp_path):
    scalars = Scalars(tmp_path, None)
    scalars.close()
    scalars.add(1, {"loss": 1.0})
    scalars.close()
    assert read(tmp_path).Tags()["scalars"] == []


def test_tensorboard_that_is_not_installed_is_one_clear_line(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ValueError, match=r"pip install 'cocanet\[tensorboard\]'") as caught:
        Scalars(tmp_path / "events", None)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "events").exists()
