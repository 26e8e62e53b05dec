"""A model remembers how the images that it was trained on were fitted."""

import numpy as np
import pytest
from PIL import Image

from cocanet.cli.train import choose_for
from cocanet.data.cache import cached_images
from cocanet.data.store_writer import write_store
from tests.small_runs import Squares


@pytest.mark.parametrize("whole", [True, False])
def test_auto_on_a_folder_knows_that_pictures_were_stretched(tmp_path, whole):
    (tmp_path / "photos").mkdir()
    for number in range(3):
        pixels = np.random.default_rng(number).integers(0, 256, (40, 60, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "photos" / f"{number}.png")
    store = cached_images(tmp_path / "photos", 32)
    if not whole:
        (tmp_path / "split").mkdir()
        (tmp_path / "split" / "train").symlink_to(store)
        store = tmp_path / "split"
    assert choose_for(store, 3, store).preset.data.fit == "stretch"


def test_other_stores_say_nothing(tmp_path):
    write_store(Squares(4), tmp_path)
    assert choose_for(tmp_path, 3, tmp_path).preset.data.fit is None
