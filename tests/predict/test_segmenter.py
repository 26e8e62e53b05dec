"""The Python interface, level by level and slot by slot."""

import inspect
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from cocanet.config import DataConfig, DynamicSlots, Preset, RefineConfig
from cocanet.models.build import build
from cocanet.predict.prediction import Segmentation
from cocanet.predict.segment_settings import SegmentSettings
from cocanet.predict.segmenter import Segmenter
from cocanet.refine import refine
from tests.models.baselines import baselines
from tests.models.baselines.baselines import tiny_config
from tests.predict.models import by_colour, preset, real

SIZE = (8, 12)


@pytest.fixture(autouse=True)
def every_segment_is_kept(monkeypatch):
    """Random models and noise make no object that scores enough; test_scores.py has the scores."""
    monkeypatch.setattr("cocanet.predict.prediction.object_scores", lambda cues: np.full(len(cues.border), 0.75))


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (*shape, 3), dtype=np.uint8)


def numbers_of(found: Segmentation) -> np.ndarray:
    """The label map in the model's own numbers."""
    return found.numbers[found.labels]


def as_tensor(images: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255


def test_one_in_one_out_and_many_in_a_list_out(tmp_path):
    image = noise(*SIZE)
    Image.fromarray(image).save(tmp_path / "a.png")
    segmenter = real()
    one = segmenter.segment(tmp_path / "a.png")
    assert isinstance(one, Segmentation)
    kinds = [str(tmp_path / "a.png"), Image.fromarray(image), image, image / 255, as_tensor(image[None])[0]]
    for same in (segmenter.segment(kind) for kind in kinds):
        np.testing.assert_array_equal(same.labels, one.labels)
    many = segmenter.segment(kinds, batch_size=2)
    assert len(many) == len(kinds)
    for same in many:
        np.testing.assert_array_equal(same.labels, one.labels)
        np.testing.assert_allclose(same.slots, one.slots, atol=1e-5)
    assert segmenter.segment([]) == []


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_at_the_models_size_the_masks_are_the_models(kind):
    images = noise(3, *SIZE)
    segmenter = real()
    with torch.inference_mode():
        out = segmenter.model(as_tensor(images))
    expected = getattr(out, f"{kind}_masks")
    for index, found in enumerate(segmenter.segment(images, masks=kind, soft=True)):
        np.testing.assert_array_equal(numbers_of(found), expected[index].argmax(0))
        np.testing.assert_allclose(found.masks, expected[index].numpy()[found.numbers], atol=1e-6)
        np.testing.assert_allclose(found.slots, out.slots[index].numpy()[found.numbers], atol=1e-5)
        if kind == "decoder":
            np.testing.assert_allclose(
                found.reconstruction, out.reconstruction[index].clamp(0, 1).permute(1, 2, 0), atol=1e-6
            )
        else:
            assert found.reconstruction is None


def test_the_decoder_does_not_run_for_the_encoders_masks(monkeypatch):
    segmenter = real()
    monkeypatch.setattr(segmenter.model.decoder, "forward", lambda *_: pytest.fail("the decoder ran"))
    segmenter.segment(noise(*SIZE))


def test_labels_are_consecutive_and_the_background_is_first():
    for seed in range(8):
        found = real().segment(noise(30, 40, seed=seed))
        count = len(found.segments)
        assert found.labels.shape == (30, 40)
        np.testing.assert_array_equal(np.unique(found.labels), np.arange(count))
        assert found.slots.shape == (count, 16)
        assert [segment.background for segment in found.segments] == [True] + [False] * (count - 1)
        assert sorted(found.shapes.area[1:])[::-1] == list(found.shapes.area[1:])
        edge = np.concatenate([found.labels[0], found.labels[-1], found.labels[:, 0], found.labels[:, -1]])
        held = np.bincount(edge, minlength=count)
        assert held[0] == held.max()
        assert sum(segment.area for segment in found.segments) == 1200


def test_the_background_holds_the_border_even_if_an_object_is_larger():
    image = np.zeros((20, 20, 3), np.uint8)
    image[..., 1], image[1:-1, 1:-1] = 255, (255, 0, 0)
    found = by_colour((20, 20)).segment(image)
    assert [(segment.slot, segment.area) for segment in found.segments] == [(1, 76), (0, 324)]
    image[:], image[:10], image[2:4, 2:4] = (255, 0, 0), (0, 255, 0), (0, 0, 255)
    assert [segment.slot for segment in by_colour((20, 20)).segment(image).segments] == [0, 1, 2]


def level_by_loop(model, levels, image: int, upto: int) -> np.ndarray:
    """Follow every pixel through its windows, one product at a time."""
    height, width = model.config.image_size
    numbers = np.zeros((height, width), int)
    for row in range(height):
        for column in range(width):
            y, x, share = row, column, np.ones(1)
            columns = width
            for level in levels[:upto]:
                high, wide = level.window
                columns //= wide
                window, cell = y // high * columns + x // wide, y % high * wide + x % wide
                masks = level.clusters.masks[image, window].numpy()
                nodes = masks[:, cell * len(share) : (cell + 1) * len(share)]
                share = np.array([sum(a * b for a, b in zip(line, share, strict=True)) for line in nodes])
                y, x = y // high, x // wide
            numbers[row, column] = window * len(share) + share.argmax()
    return numbers


@pytest.mark.parametrize("level", [1, 2, 3])
def test_levels_of_the_hierarchy(level):
    images = noise(2, *SIZE)
    segmenter = real()
    with torch.inference_mode():
        levels = segmenter.model.encode(as_tensor(images)).levels
    clusters = levels[level - 1].clusters.features.flatten(1, 2)
    for index, found in enumerate(segmenter.segment(images, level=level, soft=True)):
        np.testing.assert_array_equal(numbers_of(found), level_by_loop(segmenter.model, levels, index, level))
        np.testing.assert_array_equal(found.masks.argmax(0), found.labels)
        if level < 3:
            np.testing.assert_allclose(found.slots, clusters[index].numpy()[found.numbers], atol=1e-5)
        else:
            np.testing.assert_array_equal(found.labels, segmenter.segment(images[index]).labels)


def test_a_level_of_a_large_image_stays_in_its_windows():
    found = real().segment(noise(80, 120), level=1)
    windows = numbers_of(found) // 2
    np.testing.assert_array_equal(windows, np.arange(16).reshape(4, 4).repeat(20, 0).repeat(30, 1))


@pytest.mark.parametrize("level", [None, 1, 2])
@pytest.mark.parametrize("size", [SIZE, (40, 40)])
def test_small_segments_go_to_the_next_best(level, size):
    segmenter, image = real(), noise(*size, seed=4)
    before = segmenter.segment(image, level=level, soft=True, min_area=0)
    areas = sorted(segment.area for segment in before.segments)
    least = areas[len(areas) // 2]
    after = segmenter.segment(image, level=level, min_area=least)
    kept = {int(number) for number in after.numbers}
    assert len(kept) < len(before.segments)
    assert all(segment.slot in kept or segment.area < least for segment in before.segments)
    if level is None:
        assert min(segment.area for segment in after.segments) >= least
        remaining = [label for label, number in enumerate(before.numbers) if int(number) in kept]
        best = before.numbers[remaining][before.masks[remaining].argmax(0)]
        np.testing.assert_array_equal(numbers_of(after), best)
    unchanged = np.isin(numbers_of(before), list(kept))
    np.testing.assert_array_equal(numbers_of(after)[unchanged], numbers_of(before)[unchanged])


def test_the_largest_segment_stays_whatever_the_minimum():
    image = np.zeros((6, 9, 3), np.uint8)
    image[..., 0], image[2:4, 2:4] = 255, (0, 255, 0)
    found = by_colour((6, 9)).segment(image, min_area=10_000)
    assert [(segment.slot, segment.area) for segment in found.segments] == [(0, 54)]
    assert len(by_colour((6, 9)).segment(image, min_area=5).segments) == 1
    assert len(by_colour((6, 9)).segment(image, min_area=4).segments) == 2


def test_an_image_of_one_colour():
    for size in ((1, 1), SIZE, (1, 500), (33, 2)):
        found = by_colour(SIZE).segment(np.zeros((*size, 3), np.uint8))
        assert found.objects == []
        assert found.segments[0].area == size[0] * size[1]
        real_one = real().segment(np.full((*size, 3), 77, np.uint8))
        assert real_one.labels.shape == size
        assert np.isfinite(real_one.slots).all()
        assert max(real_one.overlay().size) >= 256


def test_dynamic_slots_are_those_of_a_dynamic_model():
    images, segmenter = noise(4, *SIZE), real()
    wanted = preset(dynamic=DynamicSlots(scope_threshold=0.2, max_slots=6))
    dynamic = Segmenter(build(wanted), wanted)
    dynamic.model.load_state_dict(segmenter.model.state_dict())
    with torch.inference_mode():
        out = dynamic.model(as_tensor(images))
    for index, found in enumerate(dynamic.segment(images)):
        np.testing.assert_array_equal(numbers_of(found), out.encoder_masks[index].argmax(0))
        assert out.in_use[index][found.numbers].all()
    plain = dynamic.segment(images, dynamic=False)
    for one, other in zip(plain, segmenter.segment(images), strict=True):
        np.testing.assert_array_equal(one.labels, other.labels)


@pytest.mark.parametrize("masks", ["encoder", "decoder"])
def test_refinement_is_that_of_the_models_masks(masks):
    images, segmenter = noise(4, *SIZE), real()
    with torch.inference_mode():
        out = segmenter.model(as_tensor(images))
        expected = refine(getattr(out, f"{masks}_masks"), as_tensor(images), out.in_use, RefineConfig()).argmax(1)
    found, plain = (segmenter.segment(images, masks=masks, refine=value, min_area=0) for value in (True, False))
    for one, other, labels in zip(found, plain, expected, strict=True):
        np.testing.assert_array_equal(numbers_of(one), labels)
        assert (one.refined, other.refined) == (True, False)
    assert "refined" in repr(found[0])
    assert any((one.labels != other.labels).any() for one, other in zip(found, plain, strict=True))


def test_another_number_of_slots():
    images, segmenter = noise(4, *SIZE), real()
    usual = segmenter.segment(images)
    for count in (1, 2, 4, 7):
        made = preset(
            levels=(*segmenter.model.config.levels[:2], replace(segmenter.model.config.levels[2], clusters=count))
        )
        other = Segmenter(build(made), made)
        other.model.load_state_dict(segmenter.model.state_dict())
        for one, expected in zip(segmenter.segment(images, slots=count), other.segment(images), strict=True):
            np.testing.assert_array_equal(numbers_of(one), numbers_of(expected))
    assert max(len(found.segments) for found in segmenter.segment(images, dynamic=True, slots=3)) <= 3
    for one, other in zip(segmenter.segment(images), usual, strict=True):
        np.testing.assert_array_equal(one.labels, other.labels)


def test_threads_with_other_slots_and_refinement_share_a_model():
    images, segmenter = noise(4, *SIZE), real()
    calls = [{}, {"slots": 2}, {"slots": 6}, {"dynamic": True}, {"refine": True}, {"slots": 3, "refine": True}]
    alone = [segmenter.segment(images, **options) for options in calls]
    with ThreadPoolExecutor(len(calls)) as pool:
        for _ in range(2):
            together = list(pool.map(lambda options: segmenter.segment(images, **options), calls))
            for one, other in zip(together, alone, strict=True):
                for found, expected in zip(one, other, strict=True):
                    np.testing.assert_array_equal(found.labels, expected.labels)


def test_mistakes():
    for options, message in (
        ({"level": 4}, r"level must lie in 1 … 3 for this model; got 4"),
        ({"level": 0}, r"level must lie in 1 … 3 for this model; got 0"),
        ({"level": 1, "masks": "decoder"}, "the decoder has no levels"),
        ({"slots": 500}, "level 3 cannot make 500 clusters of 12 nodes"),
        ({"slots": 0}, "slots must be at least 1; got 0"),
        ({"slots": -1, "dynamic": True}, "slots must be at least 1; got -1"),
        ({"level": 1, "refine": True}, "only objects' masks are refined; got refine with level 1 of 3"),
        ({"min_area": -1}, "min_area must be 0 or more pixels, .*; got -1"),
        ({"batch_size": 0}, "at least one image; got 0"),
    ):
        with pytest.raises(ValueError, match=message):
            real().segment(noise(*SIZE), **options)


def test_overlay():
    image = np.zeros((10, 20, 3), np.uint8)
    image[..., 2], image[3:7, 5:15] = 255, (255, 0, 0)
    found = by_colour((10, 20)).segment(image)
    overlay = found.overlay()
    factor = overlay.width // 20
    assert overlay.size == (20 * factor, 10 * factor)
    assert overlay.width >= 384
    pixels = np.asarray(overlay).astype(int)
    inside, outside = pixels[5 * factor, 10 * factor], pixels[factor, factor]
    assert inside.max() - inside.min() > 50
    assert outside.max() == outside.min()
    large = by_colour((10, 20)).segment(image.repeat(300, 0).repeat(300, 1)).overlay()
    assert large.size == (1600, 800)


def test_each_reads_a_batch_at_a_time():
    read = []

    def images():
        for number in range(7):
            read.append(number)
            yield noise(*SIZE, seed=number)

    results = real().each(images(), SegmentSettings(), batch_size=3)
    assert read == []
    next(results)
    assert read == [0, 1, 2]
    assert len(list(results)) == 6


@pytest.mark.parametrize("kind", ["slot-attention", "genesis-v2"])
def test_baselines_segment_too_but_have_no_levels_and_one_number_of_slots(kind):
    square = replace(baselines.slot_attention(), image_size=(16, 16), broadcast=(8, 8))
    model = {"slot-attention": square, "genesis-v2": tiny_config()}[kind]
    segmenter = Segmenter(build(model, seed=0), Preset(kind, model, DataConfig("squares")))
    image = noise(16, 16)
    with torch.inference_mode():
        out = segmenter.model(as_tensor(image[None]))
    for masks, expected in (("encoder", out.encoder_masks), ("decoder", out.decoder_masks)):
        found = segmenter.segment(image, masks=masks)
        np.testing.assert_array_equal(numbers_of(found), expected[0].argmax(0).numpy())
    with pytest.raises(ValueError, match="a level of the hierarchy needs a COCA-Net"):
        segmenter.segment(image, level=1)
    with pytest.raises(ValueError, match=f"always has the {model.slots} slots"):
        segmenter.segment(image, slots=2)


def spotted() -> np.ndarray:
    """Green on blue, with a red segment of 0.15 % of the 40×50 pixels."""
    image = np.zeros((40, 50, 3), np.uint8)
    image[..., 2], image[5:30, 10:40] = 255, (0, 255, 0)
    image[20, 20:23] = (255, 0, 0)
    return image


def test_segments_below_the_minimum_go_to_their_neighbours():
    segmenter, image = by_colour((40, 50)), spotted()
    assert [segment.slot for segment in segmenter.segment(image).segments] == [2, 1]
    for least, slots in ((0, [2, 1, 0]), (1, [2, 1, 0]), (0.0015, [2, 1, 0]), (0.0016, [2, 1]), (4, [2, 1])):
        assert [segment.slot for segment in segmenter.segment(image, min_area=least).segments] == slots, least


def test_a_share_is_of_a_window_on_a_lower_level():
    """A hundred times the default would leave one segment in most windows if it were a share of the image."""
    image = noise(80, 120)
    assert len(real().segment(image, level=1).segments) == len(real().segment(image, level=1, min_area=0).segments)
    fewer = real().segment(image, level=1, min_area=0.4)
    assert 16 <= len(fewer.segments) < len(real().segment(image, level=1).segments)


def test_components_are_objects_of_their_own():
    segmenter, image = by_colour((40, 50)), spotted()
    image[33:38, 2:8] = (255, 0, 0)
    image[33:36, 40:48] = (255, 0, 0)
    whole, parts = segmenter.segment(image), segmenter.segment(image, components=True, soft=True)
    assert [(segment.slot, segment.area) for segment in whole.objects] == [(1, 747), (0, 3 + 30 + 24)]
    assert [(segment.slot, segment.area) for segment in parts.objects] == [(1, 750), (0, 30), (0, 24)]
    assert parts.labels[20, 21] == 1
    assert len(parts.slots) == len(parts.masks) == 4
    np.testing.assert_array_equal(parts.slots[2], parts.slots[3])
    assert parts.objects[0].confidence == pytest.approx(747 / 750)
    assert len(segmenter.segment(image, components=True, min_area=0).objects) == 4


@pytest.mark.parametrize("level", [None, 1])
@pytest.mark.parametrize("components", [False, True])
def test_confidence_is_the_mean_of_the_soft_mask_over_its_own_pixels(level, components):
    found = real().segment(noise(40, 50), level=level, soft=True, components=components)
    for segment in found.segments:
        own = found.masks[segment.label][found.labels == segment.label]
        assert segment.confidence == pytest.approx(own.mean(), abs=1e-5)
        assert 0 < segment.confidence <= 1 + 1e-6


def test_what_a_crop_cuts_off_does_not_count_for_confidence():
    image = np.zeros((10, 30, 3), dtype=np.uint8)
    image[..., 2] = 255
    assert by_colour((10, 10)).segment(image, fit="crop").segments[0].confidence == 1


def test_images_are_fitted_as_in_training_by_default():
    segmenter, image = by_colour((10, 10)), np.zeros((10, 30, 3), np.uint8)
    image[..., 2], image[2:8, :4] = 255, (255, 0, 0)
    trained = replace(segmenter.preset, data=DataConfig("photos", fit="crop"))
    cropping = Segmenter(segmenter.model, trained)
    assert [len(found.objects) for found in (segmenter.segment(image), cropping.segment(image))] == [1, 0]
    assert len(cropping.segment(image, fit="stretch").objects) == 1


def test_other_types_are_refused():
    with pytest.raises(ValueError, match=r"expected an image: a path, the bytes of a file, .*got int"):
        inspect.unwrap(Segmenter.segment)(real(), 5)


def test_short_names():
    segmenter = real()
    assert repr(segmenter) == "Segmenter(small: 8×12 pixels, 4 slots, trained on tetrominoes, on cpu)"
    found = by_colour((40, 50)).segment(spotted())
    assert repr(found) == "Segmentation(40×50 pixels, 1 object)"
