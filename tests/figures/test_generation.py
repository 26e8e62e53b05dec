import numpy as np
import pytest
import torch

from cocanet.figures.canvas import pixels
from cocanet.figures.generation import TITLES, draw, generation_figure
from cocanet.figures.images import Pictured
from cocanet.models.build import build
from tests.figures.tiny import output_of, pictures, texts, tiny_images, tiny_model
from tests.tiny import images, token_net

TRUTH = torch.tensor([[[0, 0, 1], [2, 2, 2]]])
IMAGES = torch.rand(1, 3, 2, 3, generator=torch.Generator().manual_seed(0))


def test_a_row_has_the_photograph_its_segments_and_two_pictures():
    output, generated = output_of(TRUTH, TRUTH, 3), torch.rand(1, 3, 2, 3)
    figure = generation_figure(Pictured(IMAGES, None, 0), output, generated)
    photograph, tinted, told, alone = pictures(figure)
    np.testing.assert_array_equal(photograph, pixels(IMAGES[0]))
    np.testing.assert_array_equal(told, pixels(output.reconstruction[0]))
    np.testing.assert_array_equal(alone, pixels(generated[0]))
    tints = (tinted - 0.45 * photograph)[TRUTH[0].numpy() == 2]
    assert np.ptp(tints, 0).max() < 1e-6, "one segment, one tint"
    assert texts(figure) == list(TITLES)


def test_the_pictures_are_the_models():
    model = build(token_net(), seed=0).eval()
    shown = images(token_net(), 2)
    with torch.no_grad():
        panels = pictures(draw(model, Pictured(shown, None, 0)))
        output = model(shown)
        expected = model.decoder.generate(output.slots, output.in_use)
    assert len(panels) == 2 * len(TITLES)
    np.testing.assert_allclose(panels[3], pixels(expected[0]), atol=1e-6)
    np.testing.assert_allclose(panels[6], pixels(output.reconstruction[1]), atol=1e-6)


def test_a_decoder_without_tokens_is_refused():
    with pytest.raises(ValueError, match="needs a decoder by tokens"):
        draw(tiny_model(), Pictured(tiny_images(), None, 0))
