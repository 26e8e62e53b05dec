import numpy as np
import pytest
import torch

from cocanet.figures import BACKGROUND, PALETTE, discovery_grid
from cocanet.labels import UNLABELLED
from tests.figures.tiny import output_of, pictures, texts

TRUTH = torch.tensor([[[0, 0, 1], [3, 2, 2]], [[1, 1, 0], [0, 0, 0]]])
IMAGES = torch.rand(2, 3, 2, 3, generator=torch.Generator().manual_seed(0))
EXPECTED = np.array([[BACKGROUND, BACKGROUND, PALETTE[0]], [PALETTE[2], PALETTE[1], PALETTE[1]]])


def test_an_object_has_one_colour_whatever_its_slots():
    orders = torch.tensor([3, 0, 2, 1]), torch.tensor([1, 2, 3, 0])
    figure = discovery_grid(IMAGES, TRUTH, output_of(orders[0][TRUTH], orders[1][TRUTH], 4), 1)
    panels = pictures(figure)
    assert len(panels) == 2 * 5
    for column in (2, 3, 4):
        np.testing.assert_array_equal(panels[column], EXPECTED)
    np.testing.assert_array_equal(panels[0], IMAGES[0].permute(1, 2, 0).numpy())
    assert (panels[1] == 0.5).all()
    assert texts(figure) == ["image", "reconstruction", "truth", "decoder masks", "encoder masks"]


def test_all_background_labels_are_grey():
    panels = pictures(discovery_grid(IMAGES, TRUTH, output_of(TRUTH, TRUTH, 4), 2))
    np.testing.assert_array_equal(panels[2][0], [BACKGROUND] * 3)
    np.testing.assert_array_equal(panels[2][1], PALETTE[[1, 0, 0]])
    np.testing.assert_array_equal(panels[3][0, 2], PALETTE[2], "one predicted segment is grey, not two")


def test_without_a_truth_there_is_no_column_of_it():
    encoder = torch.tensor([3, 2, 1, 0])[TRUTH]
    panels = pictures(discovery_grid(IMAGES, None, output_of(TRUTH, encoder, 4)))
    assert len(panels) == 2 * 4
    for decoder, encoder in zip(panels[2::4], panels[3::4], strict=True):
        np.testing.assert_array_equal(decoder, encoder)
    np.testing.assert_array_equal(panels[2][0, :2], [BACKGROUND] * 2)


def test_an_image_without_a_mask_has_white_for_its_truth():
    truth = TRUTH.clone()
    truth[1] = UNLABELLED
    panels = pictures(discovery_grid(IMAGES, truth, output_of(TRUTH, TRUTH, 4), 1))
    assert (panels[7] == 1).all()
    alone = pictures(discovery_grid(IMAGES, None, output_of(TRUTH, TRUTH, 4)))
    np.testing.assert_array_equal(panels[8], alone[6])
    np.testing.assert_array_equal(panels[2], EXPECTED)


def test_captions_stand_over_their_rows():
    plain = discovery_grid(IMAGES, TRUTH, output_of(TRUTH, TRUTH, 4), 1)
    figure = discovery_grid(IMAGES, TRUTH, output_of(TRUTH, TRUTH, 4), 1, captions=["one", "two"])
    assert texts(figure)[-2:] == ["one", "two"]
    assert figure.get_size_inches()[1] > plain.get_size_inches()[1]
    tops = [image.get_extent()[3] for image in figure.axes[0].images[::5]]
    heights = [text.get_position()[1] for text in figure.axes[0].texts[-2:]]
    assert heights[0] < tops[0] < heights[1] < tops[1]


def test_a_caption_too_few_is_refused():
    with pytest.raises(ValueError, match="a caption for each of 2 images; got 1"):
        discovery_grid(IMAGES, TRUTH, output_of(TRUTH, TRUTH, 4), 1, captions=["one"])


def test_panels_do_not_overlap_and_stay_on_the_sheet():
    figure = discovery_grid(IMAGES, TRUTH, output_of(TRUTH, TRUTH, 4), 1, captions=["one", "two"])
    width, height = figure.get_size_inches()
    boxes = [image.get_extent() for image in figure.axes[0].images]
    for left, right, bottom, top in boxes:
        assert 0 <= left < right <= width
        assert 0 <= top < bottom <= height
        assert (right - left) / (bottom - top) == pytest.approx(3 / 2), "pixels are square"
    for i, one in enumerate(boxes):
        for other in boxes[:i]:
            apart = one[0] >= other[1] or other[0] >= one[1] or one[3] >= other[2] or other[3] >= one[2]
            assert apart
