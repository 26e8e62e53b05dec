"""How often a segment with some score is an object: `python -m tools.calibration`, a table for docs/own-images.md.

Segments are those of the shipped weights on new scenes. An object is a segment with an IoU of at least one half with a
true object.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

import cocanet
from cocanet.data.generators import make_scenes
from cocanet.predict.segment_settings import SegmentSettings

SETS = ("tetrominoes", "multi-dsprites", "objects-room")
SCENES, SEED = 80, 4711
EDGES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.01)
LEAST_OVERLAP = 0.5
SMALL = 0.01
"""Share of the image of a small object."""


def segments(name: str) -> np.ndarray:
    """Score, whether it is an object, and share of the image, of every segment but the background."""
    source, segmenter, rows = make_scenes(name, count=SCENES, seed=SEED), cocanet.load(name), []
    for sample in (source[index] for index in range(SCENES)):
        found = segmenter.segment(sample.image, min_score=0)
        assert not isinstance(found, list)
        labels = range(source.background_labels, int(sample.labels.max()) + 1)
        for segment in found.objects:
            own = found.labels == segment.label
            truth = [sample.labels == label for label in labels]
            overlap = max(((own & each).sum() / (own | each).sum() for each in truth), default=0.0)
            rows.append((segment.score, overlap >= LEAST_OVERLAP, segment.area / own.size))
    return np.array(rows, dtype=np.float64)


def main() -> None:
    found = {name: segments(name) for name in SETS}
    print(f"| score | {' | '.join(SETS)} |\n|---|{'---:|' * len(SETS)}")
    for low, high in pairwise(EDGES):
        cells = []
        for scores, objects, _ in (rows.T for rows in found.values()):
            here = (scores >= low) & (scores < high)
            cells.append(f"{objects[here].mean():.2f} of {here.sum()}" if here.any() else "–")
        print(f"| {low:.1f} to {min(1.0, high):.1f} | {' | '.join(cells)} |")
    scores, objects, areas = np.concatenate(list(found.values())).T
    hidden, is_object = scores < SegmentSettings.min_score, objects.astype(bool)
    small = is_object & (areas < SMALL)
    for name, kind in (("objects", is_object), (f"objects below {SMALL:.0%}", small), ("others", ~is_object)):
        print(f"--min-score {SegmentSettings.min_score} hides {(hidden & kind).sum()} of {kind.sum()} {name}")


if __name__ == "__main__":
    main()
