"""Whether the weights that come with the package are there and find something."""

from __future__ import annotations

import numpy as np

from cocanet.doctor.finding import Finding

REINSTALL = "pip install --force-reinstall --no-deps cocanet"


def examine_weights() -> Finding:
    from cocanet.segment.loading import load
    from cocanet.weights import shipped_names

    names = shipped_names()
    if not names:
        return Finding("weights", "broken", "none came with the package", REINSTALL)
    for name in names:
        try:
            segmenter = load(name)
        except (ValueError, OSError, RuntimeError) as error:
            return Finding("weights", "broken", f"{name}: {error}", REINSTALL)
    height, width = segmenter.preset.model.image_size
    (found,) = segmenter.each([np.zeros((height, width, 3), dtype=np.uint8)])
    if not found.segments:
        return Finding("weights", "broken", f"{names[-1]} finds nothing at all in an image", REINSTALL)
    return Finding("weights", "works", f"{', '.join(names)} load, and the last was tried")
