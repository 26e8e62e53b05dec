"""The comparison measures differences, and separates rounding from mistakes."""

import numpy as np
import pytest
import torch

from cocanet.export.graph import FromImages
from cocanet.export.parity import BATCH, TOLERANCE, Parity, compare, synthetic_images
from cocanet.models.build import build
from tests.tiny import small


@pytest.fixture(scope="module")
def model():
    return build(small(), seed=3).eval()


def reference(model):
    return FromImages(model, ("masks", "slots"))


def runner(model, change=lambda masks: masks, sizes=None):
    """A perfect export, but for one change."""

    def run(images):
        if sizes is not None:
            sizes.append(len(images))
        with torch.inference_mode():
            found = model.encode(torch.from_numpy(images))
        return {"masks": change(found.masks.numpy().copy()), "slots": found.slots.numpy()}

    return run


def test_the_model_itself_is_the_same_in_batches_of_several_sizes(model):
    sizes = []
    parity = compare(reference(model), runner(model, sizes=sizes), synthetic_images((8, 12), BATCH + 4))
    assert parity == Parity(BATCH + 4, 0, 0, 0.0, 0.0, 0)
    assert parity.holds
    assert sizes == [1, BATCH, 3]


def test_a_small_difference_is_measured(model):
    def change(masks):
        masks[:, 0, 2, 3] += 3e-5
        return masks

    parity = compare(reference(model), runner(model, change), synthetic_images((8, 12), 4))
    assert parity.masks == pytest.approx(3e-5, rel=0.01)
    assert parity.holds
    assert "3.0e-05" in str(parity)


def test_slots_in_another_order_are_counted(model):
    exact = runner(model)

    def run(images):
        return {name: value[:, ::-1] for name, value in exact(images).items()}

    parity = compare(reference(model), run, synthetic_images((8, 12), 8))
    assert parity == Parity(8, 8, 0, 0.0, 0.0, 0)
    assert "on 8 images slots come in another order" in str(parity)
    masks_only = runner(model, lambda masks: masks[:, ::-1])
    assert compare(reference(model), masks_only, synthetic_images((8, 12), 8)).slots > 0.1


def test_another_mask_is_no_matter_of_rounding(model):
    parity = compare(reference(model), runner(model, lambda masks: masks[..., ::-1]), synthetic_images((8, 12), 8))
    assert not parity.holds
    assert parity.undecided < 8
    assert parity.labels > 50
    assert f"{parity.labels:,} pixels have another slot" in str(parity)


def test_what_moves_with_the_last_digits_of_the_weights_is_undecided(model):
    """A model that mirrors its masks as soon as a weight is not exactly what it was."""
    first = next(iter(model.parameters())).detach().clone()
    torn = build(small(), seed=3).eval()

    class Torn(type(torn)):
        def encode(self, images, *asked):
            found = super().encode(images, *asked)
            same = torch.equal(next(iter(self.parameters())), first)
            return found if same else found._replace(masks=found.masks.flip(3))

    torn.__class__ = Torn
    parity = compare(reference(torn), runner(model, lambda masks: masks[..., ::-1]), synthetic_images((8, 12), 3))
    assert (parity.undecided, parity.masks, parity.labels) == (3, 0.0, 0)
    assert not parity.holds, "nothing was compared"


def test_a_tie_may_go_either_way(model):
    def change(masks):
        largest = masks.max(1, keepdims=True)
        return np.where(masks == largest, largest - TOLERANCE / 2, masks)

    assert compare(reference(model), runner(model, change), synthetic_images((8, 12), 4)).labels == 0


def test_pictures_are_the_same_every_time_and_differ_among_each_other():
    first = synthetic_images((8, 12), 3)
    assert first.shape == (3, 3, 8, 12)
    assert first.dtype == np.float32
    assert first.min() >= 0
    assert first.max() <= 1
    np.testing.assert_array_equal(first, synthetic_images((8, 12), 3))
    assert np.abs(first[0] - first[1]).max() > 0.1
