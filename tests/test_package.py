"""What `import cocanet` gives."""

from importlib.metadata import version

import cocanet


def test_dir_shows_the_public_names():
    assert dir(cocanet) == sorted(cocanet.__all__)
    assert {"Segmentation", "Segmenter", "build", "load", "presets", "__version__"} <= set(dir(cocanet))
    assert all(getattr(cocanet, name) is not None for name in dir(cocanet))


def test_version():
    assert cocanet.__version__ == version("cocanet")
