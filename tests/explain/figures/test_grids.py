import numpy as np
import pytest
import torch
from tools.gallery import COLUMNS, PredictedScenes, gallery_figure

from cocanet.explain.figures import BACKGROUND, PALETTE, compactness_figure, compactness_maps, discovery_grid
from cocanet.explain.figures.canvas import rgb
from cocanet.explain.figures.from_model import FigureImages, draw
from cocanet.explain.figures.grids import GENERATION_TITLES, discovery_rows, generation_figure
from cocanet.labels import UNLABELLED
from cocanet.models.build import build
from tests.explain.panels import output_of, panels, texts, tiny_images, tiny_model
from tests.tiny import images, token_net

TRUTH = torch.tensor([[[0, 0, 1], [3, 2, 2]], [[1, 1, 0], [0, 0, 0]]])
IMAGES = torch.rand(2, 3, 2, 3, generator=torch.Generator().manual_seed(0))
EXPECTED = np.array([[BACKGROUND, BACKGROUND, PALETTE[0]], [PALETTE[2], PALETTE[1], PALETTE[1]]])


def test_an_object_has_one_colour_whatever_its_slots():
    orders = torch.tensor([3, 0, 2, 1]), torch.tensor([1, 2, 3, 0])
    output = output_of(orders[0][TRUTH], orders[1][TRUTH], 4)
    figure = discovery_grid(IMAGES, TRUTH, output, 1)
    shown = panels(figure)
    assert len(shown) == 2 * 5
    for column in (2, 3, 4):
        np.testing.assert_array_equal(shown[column], EXPECTED)
    np.testing.assert_array_equal(shown[0], IMAGES[0].permute(1, 2, 0).numpy())
    np.testing.assert_array_equal(shown[1], rgb(output.reconstruction[0]))
    assert shown[1].min() == 0, "colours are clamped"
    assert texts(figure) == ["image", "reconstruction", "truth", "decoder masks", "encoder masks"]


def test_all_background_labels_are_grey():
    shown = panels(discovery_grid(IMAGES, TRUTH, output_of(TRUTH, TRUTH, 4), 2))
    np.testing.assert_array_equal(shown[2][0], [BACKGROUND] * 3)
    np.testing.assert_array_equal(shown[2][1], PALETTE[[1, 0, 0]])
    np.testing.assert_array_equal(shown[3][0, 2], PALETTE[2], "one predicted segment is grey, not two")


def test_without_a_truth_there_is_no_column_of_it():
    encoder = torch.tensor([3, 2, 1, 0])[TRUTH]
    shown = panels(discovery_grid(IMAGES, None, output_of(TRUTH, encoder, 4)))
    assert len(shown) == 2 * 4
    for decoder, encoder in zip(shown[2::4], shown[3::4], strict=True):
        np.testing.assert_array_equal(decoder, encoder)
    np.testing.assert_array_equal(shown[2][0, :2], [BACKGROUND] * 2)


def test_an_image_without_a_mask_has_white_for_its_truth():
    truth = TRUTH.clone()
    truth[1] = UNLABELLED
    shown = panels(discovery_grid(IMAGES, truth, output_of(TRUTH, TRUTH, 4), 1))
    assert (shown[7] == 1).all()
    alone = panels(discovery_grid(IMAGES, None, output_of(TRUTH, TRUTH, 4)))
    np.testing.assert_array_equal(shown[8], alone[6])
    np.testing.assert_array_equal(shown[2], EXPECTED)


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


def test_compactness_maps_stand_beside_the_images():
    model, shown = tiny_model(), tiny_images()
    maps = compactness_maps(model, shown)
    figure = compactness_figure(shown, maps)
    drawn = panels(figure)
    assert len(drawn) == 2 * 4
    assert texts(figure) == ["image", "level 1", "level 2", "objects"]
    np.testing.assert_array_equal(drawn[1::4], maps.levels[0].numpy())
    np.testing.assert_array_equal(drawn[3::4], maps.objects.numpy())
    scale = figure.axes[0].images[-1]
    yellow, purple = (scale.to_rgba(np.array([[x]]))[0, 0] for x in (1.0, 0.0))
    assert yellow[0] > 0.9
    assert yellow[1] > 0.8
    assert yellow[2] < 0.3
    assert purple[1] < 0.1 < purple[0] < purple[2]
    assert figure.axes[1].get_ylabel() == "compactness"


def test_a_generation_row_has_image_segments_and_two_reconstructions():
    truth, image = TRUTH[:1], IMAGES[:1]
    output, generated = output_of(truth, truth, 4), torch.rand(1, 3, 2, 3)
    figure = generation_figure(image, None, output, generated)
    first, tinted, forced, alone = panels(figure)
    np.testing.assert_array_equal(first, rgb(image[0]))
    np.testing.assert_array_equal(forced, rgb(output.reconstruction[0]))
    np.testing.assert_array_equal(alone, rgb(generated[0]))
    tints = (tinted - 0.45 * first)[truth[0].numpy() == 2]
    assert np.ptp(tints, 0).max() < 1e-6, "one segment, one tint"
    assert texts(figure) == list(GENERATION_TITLES)


def test_generated_images_are_the_models():
    model = build(token_net(), seed=0).eval()
    shown = images(token_net(), 2)
    with torch.no_grad():
        drawn = panels(draw("generation", model, FigureImages(shown)))
        output = model(shown)
        expected = model.decoder.generate(output.slots, output.in_use)
    assert len(drawn) == 2 * len(GENERATION_TITLES)
    np.testing.assert_allclose(drawn[3], rgb(expected[0]), atol=1e-6)
    np.testing.assert_allclose(drawn[6], rgb(output.reconstruction[1]), atol=1e-6)
    with pytest.raises(ValueError, match="needs a token decoder"):
        draw("generation", tiny_model(), FigureImages(tiny_images()))


def predict(name: str, truth: bool) -> PredictedScenes:
    shown = tiny_images(2)
    with torch.no_grad():
        output = tiny_model()(shown)
    return PredictedScenes(name, FigureImages(shown, output.encoder_masks.argmax(1) if truth else None), output)


def test_a_gallery_has_a_row_for_each_data_set_and_four_panels_a_scene():
    sets = [predict("one", truth=True), predict("other", truth=False)]
    figure = gallery_figure(sets)
    drawn = panels(figure)
    assert len(drawn) == 2 * 2 * 4
    assert {"one", "other", *COLUMNS} <= set(texts(figure))
    rows = [discovery_rows(part.scenes.images, part.scenes.truth, part.output, 1) for part in sets]
    with_truth, without = rows[0][0], rows[1][1]
    for panel, expected in zip(drawn[:4], (*with_truth[:2], *with_truth[-2:]), strict=True):
        np.testing.assert_array_equal(panel, expected)
    for panel, expected in zip(drawn[12:], without, strict=True):
        np.testing.assert_array_equal(panel, expected)
    with pytest.raises(ValueError, match="at least one data set"):
        gallery_figure([])
