from dataclasses import replace

import numpy as np
import torch
from matplotlib.patches import Rectangle

from cocanet.explain.figures import BACKGROUND, PALETTE, slots_figure
from tests.explain.panels import output_of, panels, texts

TRUTH = torch.tensor([[[0, 0, 1], [2, 2, 2]]])
IMAGES = torch.rand(1, 3, 2, 3, generator=torch.Generator().manual_seed(0))


def border_colours(figure) -> list[tuple]:
    frames = [patch for patch in figure.axes[0].patches if isinstance(patch, Rectangle)]
    return [tuple(patch.get_edgecolor()[:3]) for patch in frames]


def test_each_slot_has_its_picture_its_mask_and_both():
    output = output_of(TRUTH, TRUTH, 3)
    shown = panels(slots_figure(IMAGES, output, TRUTH, 1))
    assert len(shown) == 3 + 3 * 3
    for slot in range(3):
        image, mask, both = shown[3 + 3 * slot : 6 + 3 * slot]
        expected = output.slot_images[0, slot].clamp(0, 1).permute(1, 2, 0).numpy()
        inside = (TRUTH[0] == slot).numpy()
        np.testing.assert_array_equal(image, expected)
        np.testing.assert_array_equal(mask, inside)
        np.testing.assert_allclose(both[inside], expected[inside], atol=1e-6)
        assert (both[~inside] == 1).all()


def test_frames_have_the_colours_of_the_masks():
    order = torch.tensor([2, 0, 1])
    figure = slots_figure(IMAGES, output_of(order[TRUTH], order[TRUTH], 3), TRUTH, 1)
    expected = np.array([BACKGROUND, *PALETTE])
    np.testing.assert_array_equal(panels(figure)[2], expected[TRUTH[0].numpy()])
    np.testing.assert_allclose(border_colours(figure)[3::3], expected[[1, 2, 0]])


def test_slots_not_in_use_are_blank_and_cost_no_column():
    labels = torch.cat((TRUTH, TRUTH))
    output = output_of(labels, labels, 5)
    in_use = torch.tensor([[True, True, True, False, False], [True, True, True, True, False]])
    figure = slots_figure(torch.cat((IMAGES, IMAGES)), replace(output, in_use=in_use))
    assert len(panels(figure)) == 2 * 3 + 3 * 3 + 4 * 3
    assert [text for text in texts(figure) if text[-1].isdigit()] == ["slot 1", "slot 2", "slot 3", "slot 4"]


def test_gradients_are_no_hindrance():
    output = output_of(TRUTH, TRUTH, 3)
    slots_figure(IMAGES, replace(output, decoder_masks=output.decoder_masks.requires_grad_()))
