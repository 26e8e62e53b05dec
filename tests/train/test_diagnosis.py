import time
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

import cocanet
from cocanet.data.generators import make_scenes
from cocanet.metrics.functional.contingency import hard_labels
from cocanet.models.output import Output
from cocanet.train.diagnosis import (
    ENOUGH_IMAGES,
    FailureMode,
    decision,
    diagnose,
    likeness,
    stripedness,
)
from tests.data.generators.rendering import needs_renderer
from tests.tiny import images, small


def output(decoder: torch.Tensor, encoder: torch.Tensor | None = None, in_use: torch.Tensor | None = None) -> Output:
    """An output of which only the masks matter."""
    batch, slots, height, width = decoder.shape
    return Output(
        slots=torch.zeros(batch, slots, 1),
        slot_images=torch.zeros(batch, slots, 3, height, width),
        decoder_masks=decoder,
        encoder_masks=decoder if encoder is None else encoder,
        in_use=torch.ones(batch, slots, dtype=torch.bool) if in_use is None else in_use,
        reconstruction=torch.zeros(batch, 3, height, width),
    )


def hard(labels: torch.Tensor, slots: int) -> torch.Tensor:
    return torch.nn.functional.one_hot(labels.long(), slots).movedim(-1, 1).float()


def truth(name: str, slots: int, count: int = 32, seed: int = 0) -> torch.Tensor:
    """Masks of a model that finds exactly what is there."""
    scenes = make_scenes(name, count=count, seed=seed)
    labels = np.stack([scenes[index].labels for index in range(count)])
    return hard(torch.from_numpy(labels), slots)


def pieces(**options: int) -> torch.Tensor:
    return truth("tetrominoes", 4, **options)


def soften(masks: torch.Tensor, sharpness: float) -> torch.Tensor:
    return (masks * sharpness).softmax(1)


def stripes(count: int, axis: int, slots: int = 4, side: int = 32) -> torch.Tensor:
    place = torch.arange(side) * slots // side
    labels = place[:, None].expand(side, side) if axis == 0 else place.expand(side, side)
    return hard(labels.expand(count, side, side), slots)


def layout(count: int, side: int = 32) -> torch.Tensor:
    """Quarters of the image whatever is in it, with a pixel of difference here and there."""
    half = (torch.arange(side) >= side // 2).long()
    labels = (2 * half[:, None] + half).repeat(count, 1, 1)
    labels[torch.arange(count), torch.arange(count) % side, 3] = 3
    return hard(labels, 4)


def one_takes_all(count: int, side: int = 32) -> torch.Tensor:
    """A slot that differs from image to image owns all but a few pixels."""
    labels = (torch.arange(count) % 4)[:, None, None].repeat(1, side, side)
    labels[:, 0, :4] = torch.arange(4)
    return hard(labels, 4)


def with_two_empty(masks: torch.Tensor) -> torch.Tensor:
    return torch.cat((torch.zeros_like(masks[:, :1]), masks, torch.zeros_like(masks[:, :1])), 1)


FAILING = {
    "uniform masks": lambda: soften(pieces(), 0.1),
    "one slot takes all": lambda: one_takes_all(32),
    "stripes": lambda: stripes(32, axis=0),
    "fixed layout": lambda: layout(32),
}


@pytest.mark.parametrize(
    ("name", "slots"),
    [
        ("tetrominoes", 4),
        ("multi-dsprites", 6),
        pytest.param("objects-room", 7, marks=needs_renderer),
        pytest.param("shapestacks", 7, marks=needs_renderer),
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_true_masks_show_no_failure_hard_or_soft(name, slots, seed):
    masks = truth(name, slots, seed=seed)
    assert diagnose(output(masks)) == []
    assert diagnose(output(soften(masks, 3.0), masks)) == []


@pytest.mark.parametrize("mode", FAILING)
@pytest.mark.parametrize("side", ["encoder", "decoder", "both"])
def test_each_failure_mode_is_found_alone_and_on_its_side(mode, side):
    failing, right = FAILING[mode](), pieces()
    findings = diagnose(output(right if side == "encoder" else failing, right if side == "decoder" else failing))
    assert [(finding.name, finding.side) for finding in findings] == [(mode, side)]


@pytest.mark.parametrize("axis", [0, 1])
def test_stripes_that_are_ragged_or_move_are_stripes(axis):
    masks = stripes(16, axis)
    moving = torch.stack([mask.roll(index, axis + 1) for index, mask in enumerate(masks)])
    ragged = hard_labels(masks)
    ragged[:, 3, 5] = ragged[:, 20, 20] = 0
    for striped in (moving, hard(ragged, 4)):
        assert [finding.name for finding in diagnose(output(striped))] == ["stripes"]


def test_empty_slots_are_counted():
    masks = with_two_empty(pieces(count=64))
    (finding,) = diagnose(output(masks))
    assert finding.name == "empty slots"
    assert finding.side == "both"
    assert "encoder 2 of 6" in finding.message
    masks[0, 0, 5, 5] = 2.0  # one image of 64 hardly counts
    assert diagnose(output(masks)) == [finding]
    masks[:3, 0, 5, 5] = 2.0
    assert "encoder 1 of 6" in diagnose(output(masks))[0].message


def test_slots_that_only_pad_are_not_empty():
    masks = with_two_empty(pieces())
    in_use = torch.ones(32, 6, dtype=torch.bool)
    in_use[:, [0, 5]] = False
    assert diagnose(output(masks, in_use=in_use)) == []
    in_use[: ENOUGH_IMAGES - 1, 0] = True
    assert diagnose(output(masks, in_use=in_use)) == []
    in_use[:ENOUGH_IMAGES, 0] = True
    (finding,) = diagnose(output(masks, in_use=in_use))
    assert "1 of 6" in finding.message


@pytest.mark.parametrize("mode", FAILING)
def test_the_masks_of_a_token_decoder_are_not_diagnosed(mode):
    failing, right = FAILING[mode](), pieces()
    assert diagnose(output(failing, right), decoder=False) == []
    assert [finding.side for finding in diagnose(output(right, failing), decoder=False)] == ["encoder"]
    assert diagnose(output(pieces(), pieces(seed=1)), decoder=False) == []


def test_two_sides_that_disagree():
    (finding,) = diagnose(output(pieces(), pieces(seed=1)))
    assert (finding.name, finding.side) == ("encoder and decoder disagree", "both")
    half = torch.cat((pieces()[:16], pieces(seed=1)[16:]))
    assert diagnose(output(pieces(), half)) == []


@pytest.mark.parametrize("mode", FAILING)
def test_messages_are_one_line_with_name_number_and_advice(mode):
    (finding,) = diagnose(output(FAILING[mode]()))
    assert finding.message.startswith(f"{mode} (")
    assert "\n" not in finding.message
    assert any(character.isdigit() for character in finding.message)
    assert "try" in finding.message
    assert finding.name in get_args(FailureMode)


def test_a_single_image_shows_only_what_one_can():
    assert diagnose(output(stripes(1, axis=0))) == []
    assert diagnose(output(one_takes_all(1))) == []
    assert diagnose(output(with_two_empty(pieces(count=1)))) == []
    assert [found.name for found in diagnose(output(torch.full((1, 4, 8, 8), 0.25)))] == ["uniform masks"]
    (disagreement,) = diagnose(output(stripes(1, axis=0), stripes(1, axis=1)))
    assert disagreement.name == "encoder and decoder disagree"


@pytest.mark.parametrize("seed", range(3))
def test_an_untrained_model_fails(seed):
    model = cocanet.build(small(), seed=seed).eval()
    assert diagnose(model(images(small(), batch=16, seed=seed)))


CASES = {
    **FAILING,
    "empty slots": lambda: with_two_empty(pieces()),
    "none": pieces,
    "none, sprites": lambda: truth("multi-dsprites", 6),
}


@settings(max_examples=30, deadline=None)
@given(case=st.sampled_from(sorted(CASES)), data=st.data())
def test_the_order_of_slots_does_not_matter(case, data):
    masks = CASES[case]()
    slots = range(masks.shape[1])
    decoder, encoder = (masks[:, data.draw(st.permutations(slots))] for _ in range(2))
    assert diagnose(output(decoder, encoder)) == diagnose(output(masks))


def test_likeness_is_the_mean_ari_of_pairs():
    labels = torch.randint(0, 3, (5, 6, 7), generator=torch.Generator().manual_seed(0))
    labels[3] = labels[2]
    pairs = [(i, (i - shift) % 5) for shift in (1, 2, 3) for i in range(5)]
    expected = np.mean([adjusted_rand_score(labels[i].flatten(), labels[j].flatten()) for i, j in pairs])
    assert float(likeness(labels, 3)) == pytest.approx(expected)


def test_stripedness_counts_boundaries():
    labels = torch.zeros(3, 4, 4, dtype=torch.long)
    labels[0, 2:] = 1
    labels[1, 0, 0] = 1
    # The third has no boundary and does not count.
    assert float(stripedness(labels)) == pytest.approx((0 + 1) / 2)


def test_decision_goes_from_equal_to_hard():
    masks, in_use = pieces(), torch.ones(32, 4, dtype=torch.bool)
    assert float(decision(masks, in_use)) == pytest.approx(1)
    assert float(decision(torch.full_like(masks, 0.25), in_use)) == pytest.approx(0)
    assert float(decision(0.5 * masks + 0.125, in_use)) == pytest.approx(0.5)
    in_use[:, 1:] = False
    assert float(decision(masks, in_use)) == 1


def test_it_is_cheap():
    """Five times what it takes on an idle machine."""
    generator = torch.Generator().manual_seed(0)
    x = output(*(torch.rand(32, 7, 64, 64, generator=generator).mul(9).softmax(1) for _ in range(2)))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        times = []
        for _ in range(6):
            start = time.process_time()
            diagnose(x)
            times.append(time.process_time() - start)
    finally:
        torch.set_num_threads(threads)
    assert min(times) < 0.05
