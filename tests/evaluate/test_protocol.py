from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from cocanet.config import RefineConfig
from cocanet.data.generators.tetrominoes import Tetrominoes
from cocanet.data.loader import Batch, Loader, LoaderConfig
from cocanet.evaluate.protocol import evaluate, score_batches
from cocanet.metrics.scores import score_images
from cocanet.metrics.table import SCORES
from cocanet.models.output import Output
from cocanet.refine import refine


class Oracle(nn.Module):
    """A model that knows the ground truth and reconstructs black images."""

    def __init__(self, labels: torch.Tensor, slots: int) -> None:
        super().__init__()
        self.masks = nn.functional.one_hot(labels, slots).permute(0, 3, 1, 2).float()

    def forward(self, images):
        batch, slots = self.masks.shape[:2]
        black = torch.zeros_like(images)
        return Output(
            slots=torch.zeros(batch, slots, 1),
            slot_images=black.unsqueeze(1).expand(-1, slots, -1, -1, -1),
            decoder_masks=self.masks,
            encoder_masks=torch.ones_like(self.masks) / slots,
            in_use=torch.ones(batch, slots, dtype=torch.bool),
            reconstruction=black - 1,
        )


class ByColour(nn.Module):
    """A model whose masks are the colour channels."""

    def forward(self, images):
        return Output(
            slots=torch.zeros(len(images), 3, 1),
            slot_images=images.unsqueeze(1).expand(-1, 3, -1, -1, -1),
            decoder_masks=images,
            encoder_masks=images.roll(1, 1),
            in_use=torch.ones(len(images), 3, dtype=torch.bool),
            reconstruction=images / 2,
        )


def test_ground_truth_scores_one_and_one_mask_scores_zero():
    batch = next(Loader(Tetrominoes(20, seed=0), LoaderConfig(20, shuffle=False)).epoch())
    scores = evaluate(Oracle(batch.labels, 4), [batch], background_labels=1)
    assert tuple(scores) == SCORES
    for name in SCORES[:4]:
        assert scores[name] == pytest.approx(1)
    assert scores["encoder_ari"] == pytest.approx(0)
    assert scores["mse"] == pytest.approx(float(batch.images.square().mean()), rel=1e-5)


def test_images_without_foreground_are_left_out_of_the_mean():
    labels = torch.from_numpy(np.tile(np.array([[0, 0], [1, 2]]), (2, 1, 1)))
    labels[1] = 0
    batch = Batch(torch.zeros(2, 3, 2, 2), labels, torch.arange(2))
    scores = evaluate(Oracle(labels, 3), [batch], background_labels=1)
    assert scores["decoder_ari_fg"] == scores["decoder_msc_fg"] == 1


def test_scores_are_means_over_images_not_over_batches():
    batch = next(Loader(Tetrominoes(7, seed=0), LoaderConfig(7, shuffle=False)).epoch())
    model = ByColour()
    parts = [Batch(*(x[part] for x in batch[:3])) for part in (slice(5), slice(5, 7))]
    scores = evaluate(model, parts, background_labels=1)
    each = score_images(model(batch.images), batch.labels, batch.images, 1)
    for name in SCORES:
        assert scores[name] == pytest.approx(float(each[name].mean()), abs=1e-12)
    assert model.training


def test_refinement_acts_on_encoder_masks_before_they_are_scored():
    batch = next(Loader(Tetrominoes(4, seed=0), LoaderConfig(4, shuffle=False)).epoch())
    model = ByColour()
    output = model(batch.images)
    plain, refined = (score_batches(model, [batch], 1, refined=wanted) for wanted in (False, True))
    masks = refine(output.encoder_masks, batch.images, output.in_use, RefineConfig())
    expected = score_images(replace(output, encoder_masks=masks), batch.labels, batch.images, 1)
    for name in SCORES:
        torch.testing.assert_close(refined.per_image[name], expected[name])
    assert refined.means["encoder_ari"] != plain.means["encoder_ari"]
    assert refined.means["decoder_ari"] == plain.means["decoder_ari"]


def test_no_images_is_an_error():
    with pytest.raises(ValueError, match="no images"):
        evaluate(nn.Identity(), [], background_labels=1)
