import pytest

from cocanet.words import plural


@pytest.mark.parametrize(
    ("count", "noun", "words"),
    [
        (1, "image", "1 image"),
        (0, "step", "0 steps"),
        (2000, "image", "2,000 images"),
        (1.0, "minute", "1 minute"),
        (1.5, "minute", "1.5 minutes"),
        (30.0, "minute", "30 minutes"),
    ],
)
def test_plural(count, noun, words):
    assert plural(count, noun) == words
